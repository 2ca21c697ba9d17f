package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import scala.xml.{Node, NodeSeq}

import jakarta.servlet.http.HttpServletRequest

import io.cleancut.conf.{Key, Keys}

/** What a query is set to, with the defaults and what a change of each costs. */
final private[ui] class SettingsPage(tab: CutsTab) extends CutsPage(tab, "settings") {

  override def render(request: HttpServletRequest): Seq[Node] = {
    val location = parameter(request, "location").getOrElse("")
    store.run(location).flatMap(_.facts) match {
      case None        => nothing(request, s"No query has its checkpoint at '$location' here.")
      case Some(facts) =>
        page(request, "Settings") {
          val ofSpark = facts.conf.filterNot(_._1.startsWith(Keys.Prefix)).toSeq.sorted
          ways(request, location, "settings") ++
            <p>Keys begin with <code>{Keys.Prefix}</code>. The session of the query had these when
              its run began.</p> ++
            table(
              "Keys of Cleancut",
              Keys.all.sortBy(key => !facts.conf.contains(key.name)).map(row(facts.conf, _))
            ) ++
            <h2>Keys of Spark</h2> ++
            Figures.facts(ofSpark.map { case (key, value) => key -> Figures.text(value) }: _*)
        }
    }
  }

  private def table(title: String, rows: Seq[Node]): NodeSeq =
    region(title)(<table>
      <thead><tr><th scope="col">key</th><th scope="col">value</th><th scope="col">default</th>
        <th scope="col">what it does, and what a change costs</th></tr></thead>
      <tbody>{rows}</tbody>
    </table>)

  private def row(set: Map[String, String], key: Key[_]): Node = {
    val value = set.get(key.name)
    <tr>
      <th scope="row"><code>{key.shortName}</code></th>
      <td class="place">{
      value.map(of => <strong>{of}</strong>).getOrElse(<span>{key.defaultText}</span>)
    }</td>
      <td>{key.defaultText}</td><td>{key.doc}</td>
    </tr>
  }
}
