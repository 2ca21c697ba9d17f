// Cloudflare's simulator of R2 behind its S3 endpoint. Arguments: the directory in which miniflare
// is installed, the port, the directory of the data, bucket, access key, secret key.
import { createRequire } from "node:module";

const [installed, port, data, bucket, accessKeyId, secretAccessKey] = process.argv.slice(2);
const { Miniflare } = createRequire(`${installed}/`)("miniflare");

const simulator = new Miniflare({
  modules: true,
  script: "export default { fetch() { return new Response('r2') } }",
  compatibilityDate: "2026-01-01",
  host: "127.0.0.1",
  port: Number(port),
  r2Persist: data,
  r2Buckets: { BUCKET: { id: bucket, s3Credentials: { accessKeyId, secretAccessKey } } },
});
await simulator.ready;

process.on("SIGTERM", async () => {
  await simulator.dispose();
  process.exit(0);
});
