import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * Compiles files and runs suites, one request after the other, so that compiler and libraries are
 * loaded and warm. The class path has the libraries; a request names the classes of the build, which
 * are loaded again for each. A request is a line of fields that tabs divide: `compile` with the
 * arguments of scalac, or `run` with those of ScalaTest. The answer ends with a line of its result.
 */
public final class SuiteServer {
  private SuiteServer() {}

  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] fields = line.split("\t");
      String[] rest = java.util.Arrays.copyOfRange(fields, 1, fields.length);
      boolean isDone =
          fields[0].equals("compile")
              ? scala.tools.nsc.Main.process(rest)
              : org.scalatest.tools.Runner.run(rest);
      System.out.println();
      System.out.println("SuiteServer: " + isDone);
      System.out.flush();
    }
    // Threads of suites may still run.
    System.exit(0);
  }
}
