package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import java.net.URLEncoder
import java.nio.charset.StandardCharsets.UTF_8

import scala.xml.{Elem, Node, NodeSeq, Text}

import jakarta.servlet.http.HttpServletRequest

import org.apache.spark.ui.{SparkUI, SparkUITab, UIUtils, WebUIPage}

import io.cleancut.cutstore.Notes

/**
 * The tab "Cuts" of Spark's pages: queries, the epochs of one, one epoch, and what a query is set
 * to. All is drawn here, without a script.
 *
 * @param notes
 *   what others have noted of the query at a location, as far as it is known; None on a history
 *   server
 */
final private[ui] class CutsTab(
    val store: CutsStore,
    val notes: String => Option[Notes],
    parent: SparkUI
) extends SparkUITab(parent, "cuts") {
  override val name: String = "Cuts"

  // Behind Spark's own.
  override def displayOrder: Int = 100

  attachPage(new QueriesPage(this))
  attachPage(new EpochsPage(this))
  attachPage(new EpochPage(this))
  attachPage(new SettingsPage(this))
}

private[ui] object CutsTab {
  def attach(store: CutsStore, notes: String => Option[Notes], ui: SparkUI): Unit =
    ui.attachTab(new CutsTab(store, notes, ui))
}

/** What the pages have in common. */
abstract private[ui] class CutsPage(tab: CutsTab, prefix: String) extends WebUIPage(prefix) {

  protected def store: CutsStore = tab.store

  /** The last cut that is known to be restorable, in words. */
  protected def proven(location: String, last: Option[EpochEntry]): String = {
    val notes = tab.notes(location)
    notes.flatMap(_.proven).orElse(last.flatMap(_.proven)) match {
      case Some(of) => s"epoch ${of.epoch}, ${Figures.moment(of.provenMs)}"
      case None     => if (notes.isDefined) "never" else "–"
    }
  }

  /** A page of Cleancut's. */
  protected def page(request: HttpServletRequest, title: String)(content: => NodeSeq): Seq[Node] =
    UIUtils.headerSparkPage(
      request,
      title,
      <div class="cleancut"><style>{Text(CutsPage.Styles)}</style>{content}</div>,
      tab
    )

  /** Where another page is, or this one with other parameters. */
  protected def link(
      request: HttpServletRequest,
      to: String,
      parameters: (String, String)*
  ): String = {
    val base = UIUtils.prependBaseUri(request, tab.basePath)
    val query = parameters.map { case (name, value) =>
      s"$name=${URLEncoder.encode(value, UTF_8)}"
    }
    val path = if (to.isEmpty) "" else s"$to/"
    s"$base/${tab.prefix}/$path${if (query.isEmpty) "" else query.mkString("?", "&", "")}"
  }

  protected def parameter(request: HttpServletRequest, name: String): Option[String] =
    Option(request.getParameter(name)).filter(_.nonEmpty)

  /** The ways from a page to those about the same query. */
  protected def ways(request: HttpServletRequest, location: String, here: String): NodeSeq = {
    val all = Seq("query" -> "Epochs", "settings" -> "Settings")
    <nav class="ways" aria-label="About this query">
      <a href={link(request, "")}>All queries</a>
      {
      all.map { case (to, title) =>
        if (to == here) <a aria-current="page" href={link(request, to, "location" -> location)}>{
          title
        }</a>
        else <a href={link(request, to, "location" -> location)}>{title}</a>
      }
    }
    </nav>
  }

  /** Where an epoch is shown. */
  protected def linkToEpoch(
      request: HttpServletRequest,
      location: String,
      epoch: Long,
      further: (String, String)*
  ): String = {
    val named = Seq("location" -> location, "epoch" -> epoch.toString)
    link(request, "epoch", named ++ further: _*)
  }

  /** What may be wider than a screen, and is moved by the keyboard, too. */
  protected def region(label: String)(content: NodeSeq): Elem =
    <div class="wide" tabindex="0" role="region" aria-label={label}>{content}</div>

  /** What is shown in the place of what was asked for. */
  protected def nothing(request: HttpServletRequest, why: String): Seq[Node] =
    page(request, "Cuts")(<p role="status">{why} <a href={link(request, "")}>All queries</a></p>)
}

private[ui] object CutsPage {

  // Colours of marks stand out by 3:1 and more from a white and from a black page; text is the
  // page's own. Spark's pages say by an attribute which of the two they are.
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
      |.cleancut .ways { margin-bottom: .4rem; } .cleancut .ways a { margin-right: 1rem; }
      |.cleancut a { text-decoration: underline; }
      |.cleancut .ways a[aria-current] { font-weight: 600; }
      |.cleancut .why { border-left: .25rem solid #d9480f; padding: .3rem .8rem; margin: .8rem 0; }
      |.cleancut .key { display: inline-block; width: .8rem; height: .8rem;
      |  margin: 0 .3rem 0 1rem; }
      |.cleancut svg text { fill: currentColor; font-size: 11px; }
      |.cleancut svg a:focus rect, .cleancut svg a:hover rect { stroke: currentColor;
      |  stroke-width: 1.5; }
      |.cleancut .t { white-space: nowrap; }
      |.cleancut td.place { overflow-wrap: anywhere; min-width: 12rem; }
      |.cleancut td.told { min-width: 20rem; }
      |@media (max-width: 40rem) { .cleancut dl { grid-template-columns: 1fr; }
      |  .cleancut dd { margin-bottom: .4rem; } }
      |""".stripMargin
}
