package io.cleancut.objectstore.s3

import java.net.URI
import java.time.Duration

import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider
import software.amazon.awssdk.core.checksums.{
  RequestChecksumCalculation,
  ResponseChecksumValidation
}
import software.amazon.awssdk.core.client.config.ClientOverrideConfiguration
import software.amazon.awssdk.core.exception.SdkClientException
import software.amazon.awssdk.http.SdkHttpClient
import software.amazon.awssdk.http.apache5.Apache5HttpClient
import software.amazon.awssdk.regions.Region
import software.amazon.awssdk.regions.providers.DefaultAwsRegionProviderChain
import software.amazon.awssdk.retries.DefaultRetryStrategy
import software.amazon.awssdk.services.s3.{LegacyMd5Plugin, S3Client, S3Configuration}

import io.cleancut.conf.{Keys, ObjectStoreSettings}
import io.cleancut.error.Errors

/**
 * How requests reach a store. It resolves all settings that are left open.
 *
 * @param region
 *   None leaves it to the SDK
 * @param accessPoint
 *   access point whose ARN replaces the bucket in requests
 * @param profile
 *   AWS profile with the credentials; None leaves it to the SDK
 * @param stallMs
 *   how long the server may be silent within a request before it is retried
 */
final case class S3Connection(
    dialect: Dialect,
    endpoint: Option[URI],
    region: Option[String],
    pathStyle: Boolean,
    encryption: Encryption = Encryption.OfBucket,
    requesterPays: Boolean = false,
    accessPoint: Option[String] = None,
    maxConnections: Int = Keys.S3MaxConnections.default,
    profile: Option[String] = None,
    stallMs: Long = S3Connection.StallMs
) {

  /**
   * @param target
   *   location for messages
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_STORE_REFUSED if no region is known
   */
  private[objectstore] def client(
      target: String,
      credentials: AwsCredentialsProvider,
      http: SdkHttpClient.Builder[_] = httpClient
  ): S3Client = {
    val builder = S3Client
      .builder()
      .credentialsProvider(credentials)
      // Explicit, because the SDK would otherwise search the user's class path for a client.
      .httpClientBuilder(http)
      // Retries of the SDK would be hidden from the counts, and would turn a lost response of a
      // create into a 412 that looks like a lost race.
      .overrideConfiguration(
        ClientOverrideConfiguration
          .builder()
          .retryStrategy(DefaultRetryStrategy.doNotRetry())
          .addExecutionInterceptor(new AccessHeaders(encryption, requesterPays))
          .build()
      )
      // R2 and others refuse checksums that were not requested, or they are sent as aws-chunked.
      .requestChecksumCalculation(RequestChecksumCalculation.WHEN_REQUIRED)
      .responseChecksumValidation(ResponseChecksumValidation.WHEN_REQUIRED)
      .serviceConfiguration(S3Connection.service(pathStyle))
      .region(region.fold(S3Connection.resolveRegion(target))(Region.of))
    endpoint.foreach(builder.endpointOverride)
    if (dialect.bodyCheck == BodyCheck.ContentMd5) builder.addPlugin(LegacyMd5Plugin.create())
    builder.build()
  }

  private[objectstore] def httpClient: Apache5HttpClient.Builder =
    Apache5HttpClient
      .builder()
      .maxConnections(maxConnections)
      .connectionTimeout(Duration.ofMillis(stallMs))
      .connectionAcquisitionTimeout(Duration.ofMillis(stallMs))
      .socketTimeout(Duration.ofMillis(stallMs))
      .expectContinueEnabled(false)
}

object S3Connection {

  /** Longer than any response of S3 takes, except for a completion, which S3 keeps alive. */
  private val StallMs = 20000L

  private val EndpointVariables = Seq("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
  private val RegionVariables = Seq("AWS_REGION", "AWS_DEFAULT_REGION")

  /** @param environment environment variables of this process */
  def of(settings: ObjectStoreSettings, environment: Map[String, String]): S3Connection = {
    def first(names: Seq[String]) = names.flatMap(environment.get).find(_.nonEmpty)
    val endpoint = settings.endpoint.orElse(first(EndpointVariables)).map(URI.create)
    val dialect = settings.dialect.flatMap(Dialect.named).getOrElse(Dialect.at(endpoint))
    val region = settings.region.orElse(dialect match {
      case Dialect.Generic => first(RegionVariables).orElse(dialect.region)
      case _               => dialect.region
    })
    // The host contains the name of an access point.
    val pathStyle = settings.accessPoint.isEmpty && dialect.pathStyle
    S3Connection(
      dialect,
      endpoint,
      region,
      settings.pathStyle.getOrElse(pathStyle),
      Encryption.of(settings.encryption),
      settings.requesterPays,
      settings.accessPoint,
      settings.maxConnections,
      settings.profile
    )
  }

  private def resolveRegion(target: String): Region =
    try DefaultAwsRegionProviderChain.builder().build().getRegion
    catch {
      case e: SdkClientException =>
        val detail = s"no region is known; set ${Keys.S3Region.name}, or AWS_REGION in the " +
          "environment of the driver and of each executor"
        throw Errors.objectStoreRefused("open", target, detail, e)
    }

  private def service(pathStyle: Boolean): S3Configuration =
    S3Configuration
      .builder()
      .pathStyleAccessEnabled(pathStyle)
      // R2 does not decode aws-chunked, and its simulator stores the framing as content.
      .chunkedEncodingEnabled(false)
      // R2 never answers an expect-continue: each write would wait for a timeout of seconds.
      .expectContinueEnabled(false)
      // An access point may be in another region than its clients.
      .useArnRegionEnabled(true)
      .build()
}
