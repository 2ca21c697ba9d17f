package io.cleancut.objectstore

/**
 * The kind of a request, and its billing class. S3 and R2 use the same classes, and bill refused
 * requests as others.
 */
sealed abstract class RequestKind(val name: String, val billing: RequestKind.Billing)
    extends Product
    with Serializable {

  /** Whether the time of the request is mostly that of sending its body. */
  def sendsBody: Boolean = RequestKind.Uploads(this)

  override def toString: String = name
}

object RequestKind {

  /** A: writes and lists. B: reads. Free: deletes. */
  sealed trait Billing
  object Billing {
    case object ClassA extends Billing
    case object ClassB extends Billing
    case object Free extends Billing
  }

  case object Put extends RequestKind("put", Billing.ClassA)
  case object Create extends RequestKind("create", Billing.ClassA)
  case object Get extends RequestKind("get", Billing.ClassB)
  case object GetRange extends RequestKind("getRange", Billing.ClassB)
  case object Head extends RequestKind("head", Billing.ClassB)
  case object ListPage extends RequestKind("list", Billing.ClassA)
  case object Delete extends RequestKind("delete", Billing.Free)
  case object UploadStart extends RequestKind("uploadStart", Billing.ClassA)
  case object UploadPart extends RequestKind("uploadPart", Billing.ClassA)
  case object UploadComplete extends RequestKind("uploadComplete", Billing.ClassA)
  case object UploadAbort extends RequestKind("uploadAbort", Billing.Free)
  case object ListUploads extends RequestKind("listUploads", Billing.ClassA)

  val values: Seq[RequestKind] = Seq(
    Put,
    Create,
    Get,
    GetRange,
    Head,
    ListPage,
    Delete,
    UploadStart,
    UploadPart,
    UploadComplete,
    UploadAbort,
    ListUploads
  )

  private val Uploads = Set[RequestKind](Put, Create, UploadPart)
}
