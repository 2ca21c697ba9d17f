package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import java.net.URLEncoder
import java.nio.charset.StandardCharsets.UTF_8

import scala.xml.{Elem, Node, NodeSeq, Text}

import jakarta.servlet.http.HttpServletRequest

import org.apache.spark.ui.{SparkUI, SparkUITab, UIUtils, WebUIPage}

/**
 * The tab "Cuts" of Spark's UI: queries, the epochs of a query, one epoch, and the settings of a
 * query. All is rendered here, without scripts.
 */
final private[ui] class CutsTab(
    val store: CutsStore,
    val live: () => LiveQueries,
    parent: SparkUI
) extends SparkUITab(parent, "cuts") {
  override val name: String = "Cuts"

  // After Spark's own tabs.
  override def displayOrder: Int = 100

  attachPage(new QueriesPage(this))
  attachPage(new EpochsPage(this))
  attachPage(new EpochPage(this))
  attachPage(new SettingsPage(this))
}

private[ui] object CutsTab {
  def attach(store: CutsStore, live: () => LiveQueries, ui: SparkUI): Unit =
    ui.attachTab(new CutsTab(store, live, ui))
}

/** Common parts of the pages. */
abstract private[ui] class CutsPage(tab: CutsTab, prefix: String) extends WebUIPage(prefix) {

  protected def store: CutsStore = tab.store

  /** The last cut that passed a restore test, as text. */
  protected def proven(location: String, last: Option[EpochEntry]): String = {
    val notes = tab.live().notes(location)
    notes.flatMap(_.proven).orElse(last.flatMap(_.proven)) match {
      case Some(proof) => s"epoch ${proof.epoch}, ${Figures.moment(proof.provenMs)}"
      case None        => if (notes.isDefined) "never" else "–"
    }
  }

  /** A page in Spark's layout. */
  protected def page(request: HttpServletRequest, title: String)(content: => NodeSeq): Seq[Node] =
    UIUtils.headerSparkPage(
      request,
      title,
      <div class="cleancut"><style>{Text(CutsPage.Styles)}</style>{content}</div>,
      tab
    )

  /** The URL of another page, or of this one with other parameters. */
  protected def link(
      request: HttpServletRequest,
      page: String,
      parameters: (String, String)*
  ): String = {
    val base = UIUtils.prependBaseUri(request, tab.basePath)
    val query = parameters.map { case (name, value) =>
      s"$name=${URLEncoder.encode(value, UTF_8)}"
    }
    val path = if (page.isEmpty) "" else s"$page/"
    s"$base/${tab.prefix}/$path${if (query.isEmpty) "" else query.mkString("?", "&", "")}"
  }

  protected def parameter(request: HttpServletRequest, name: String): Option[String] =
    Option(request.getParameter(name)).filter(_.nonEmpty)

  /** The navigation between the pages of a query. */
  protected def navigation(
      request: HttpServletRequest,
      location: String,
      current: String
  ): NodeSeq = {
    val all = Seq("query" -> "Epochs", "settings" -> "Settings")
    <nav class="links" aria-label="Pages of this query">
      <a href={link(request, "")}>All queries</a>
      {
      all.map { case (page, title) =>
        val href = link(request, page, "location" -> location)
        if (page == current) <a aria-current="page" href={href}>{title}</a>
        else <a href={href}>{title}</a>
      }
    }
      {Terms.docsLink}
    </nav>
  }

  /** A header cell of a table, with the explanation of its term. */
  protected def header(term: String, style: String = ""): Elem =
    <th scope="col" class={style}>{Terms(term)}</th>

  /** The URL of an epoch's page. */
  protected def linkToEpoch(
      request: HttpServletRequest,
      location: String,
      epoch: Long,
      more: (String, String)*
  ): String = {
    val parameters = Seq("location" -> location, "epoch" -> epoch.toString)
    link(request, "epoch", parameters ++ more: _*)
  }

  /** Content that may be wider than the screen and can be scrolled with the keyboard. */
  protected def region(label: String)(content: NodeSeq): Elem =
    <div class="wide" tabindex="0" role="region" aria-label={label}>{content}</div>

  /** A message instead of the requested content. */
  protected def message(request: HttpServletRequest, text: String): Seq[Node] =
    page(request, "Cuts")(<p role="status">{text} <a href={link(request, "")}>All queries</a></p>)
}

private[ui] object CutsPage {

  // Without the child combinator, which HTML would escape. Marks have a contrast of at least 3:1 on
  // white and on black; text has the color of the page.
  // Spark's pages have an attribute for light or dark.
  val Styles: String =
    """.cleancut p, .cleancut dl { max-width: 80rem; }
      |.cleancut h2 { font-size: 1.25rem; margin-top: 1.5rem; }
      |.cleancut section h3 { font-size: 1rem; margin-top: 1rem; }
      |.cleancut .wide { overflow-x: auto; }
      |.cleancut table { border-collapse: collapse; width: 100%; }
      |.cleancut th, .cleancut td { padding: .25rem .6rem; text-align: left; vertical-align: top;
      |  border-bottom: 1px solid rgba(128,128,128,.35); }
      |.cleancut td.n, .cleancut th.n { text-align: right; white-space: nowrap;
      |  font-variant-numeric: tabular-nums; }
      |.cleancut thead th.n { white-space: normal; }
      |.cleancut dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }
      |.cleancut dt { font-weight: 600; } .cleancut dd { margin: 0; overflow-wrap: anywhere; }
      |.cleancut .links { margin-bottom: .4rem; } .cleancut .links a { margin-right: 1rem; }
      |.cleancut a { text-decoration: underline; }
      |.cleancut .links a[aria-current] { font-weight: 600; }
      |.cleancut p.reason { border-left: .25rem solid #d9480f; padding: .3rem .8rem;
      |  margin: .8rem 0; }
      |.cleancut p.growth { border-left: .25rem solid #c2740a; padding: .3rem .8rem; }
      |.cleancut abbr { text-decoration: underline dotted; cursor: help; }
      |.cleancut .timeline { max-width: 80rem; margin: .5rem 0 1rem; }
      |.cleancut .bar { display: flex; height: 1.6rem; background: rgba(128,128,128,.2); }
      |.cleancut .bar span { display: block; min-width: 1px; }
      |.cleancut .scale { position: relative; height: 1.4rem; font-size: .75rem;
      |  border-top: 1px solid rgba(128,128,128,.6); overflow: hidden; }
      |.cleancut .scale span { position: absolute; white-space: nowrap; padding-left: .2rem;
      |  border-left: 1px solid rgba(128,128,128,.6); }
      |.cleancut .stage { margin-bottom: .3rem; }
      |.cleancut .stage .block { display: block; height: .5rem; min-width: 2px; }
      |.cleancut .stage small { display: block; overflow-wrap: anywhere; }
      |.cleancut .legend span { display: inline-block; margin-right: 1rem; }
      |.cleancut .key { display: inline-block; width: .8rem; height: .8rem;
      |  margin: 0 .3rem 0 1rem; }
      |.cleancut .legend span.key, .cleancut th .key { margin: 0 .3rem 0 0; }
      |.cleancut .wide + dl { margin-top: 1rem; }
      |.cleancut svg text { fill: currentColor; font-size: 11px; }
      |.cleancut svg a:focus rect, .cleancut svg a:hover rect { stroke: currentColor;
      |  stroke-width: 1.5; }
      |.cleancut .t { white-space: nowrap; }
      |.cleancut td.path { overflow-wrap: anywhere; min-width: 12rem; }
      |.cleancut td.reason { min-width: 20rem; }
      |@media (max-width: 40rem) { .cleancut dl { grid-template-columns: 1fr; }
      |  .cleancut dd { margin-bottom: .4rem; } }
      |""".stripMargin
}
