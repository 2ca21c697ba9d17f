package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import scala.xml.{Node, NodeSeq}

import jakarta.servlet.http.HttpServletRequest

import io.cleancut.conf.{Key, Keys}

/** The settings of a query, with defaults and the cost of a change. */
final private[ui] class SettingsPage(tab: CutsTab) extends CutsPage(tab, "settings") {

  override def render(request: HttpServletRequest): Seq[Node] = {
    val location = parameter(request, "location").getOrElse("")
    store.run(location).flatMap(_.facts) match {
      case None        => message(request, s"The query at '$location' is unknown here.")
      case Some(facts) =>
        page(request, "Settings") {
          val sparkSettings = facts.conf.filterNot(_._1.startsWith(Keys.Prefix)).toSeq.sorted
          navigation(request, location, "settings") ++
            <p>Keys begin with <code>{Keys.Prefix}</code>. These are the settings of the query's
              session when the run started.</p> ++
            table(
              "Keys of Cleancut",
              Keys.all.sortBy(key => !facts.conf.contains(key.name)).map(row(facts.conf, _))
            ) ++
            <h2>Keys of Spark</h2> ++
            Figures.facts(sparkSettings.map { case (key, value) => key -> Figures.text(value) }: _*)
        }
    }
  }

  private def table(title: String, rows: Seq[Node]): NodeSeq =
    region(title)(<table>
      <thead><tr><th scope="col">key</th><th scope="col">value</th><th scope="col">default</th>
        <th scope="col">description, and cost of a change</th></tr></thead>
      <tbody>{rows}</tbody>
    </table>)

  private def row(settings: Map[String, String], key: Key[_]): Node = {
    val value = settings.get(key.name)
    <tr>
      <th scope="row"><code>{key.shortName}</code></th>
      <td class="path">{
      value.map(text => <strong>{text}</strong>).getOrElse(<span>{key.defaultText}</span>)
    }</td>
      <td>{key.defaultText}</td><td>{key.doc}</td>
    </tr>
  }
}
