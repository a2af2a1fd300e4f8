package s3

import (
	"net/http"
	"strings"

	"coalmine/storage"
)

// meaning is the meaning of a server's error for the store.
type meaning struct {
	// mark is the error of package storage that callers test for. ErrAway and ErrFull are
	// shown, and callers wait for their end; ErrUnsuitable makes opening fail, and is
	// treated like ErrAway later; nil fails the request and its task.
	mark error
	// cause and remedy are messages; both may be empty.
	cause, remedy string
	// again reports that the same request may succeed within a second or two.
	again bool
	// keys reports that the credentials are the cause: they are read again, and opening
	// the store with them fails.
	keys bool
}

const newKeys = "put valid credentials into the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) and start again, " +
	"or into AWS_SHARED_CREDENTIALS_FILE, which is read again by itself"

// The meanings that the table gives to codes and statuses.
var (
	requestFault  = meaning{}
	busy          = meaning{mark: storage.ErrAway, again: true}
	damagedOnWay  = meaning{mark: storage.ErrAway, again: true, cause: "the data arrive damaged", remedy: "look for a proxy or a network card that alters them"}
	expired       = meaning{mark: storage.ErrAway, again: true, keys: true, cause: "the credentials have expired", remedy: newKeys}
	denied        = meaning{mark: storage.ErrAway, keys: true, cause: "the server refuses the credentials", remedy: "let them read, write, list and delete in the bucket, or " + newKeys}
	skewed        = meaning{mark: storage.ErrAway, cause: "the clocks of server and client differ too much", remedy: "set the clock of this machine or of the server"}
	accountClosed = meaning{mark: storage.ErrAway, cause: "the account is closed or suspended", remedy: "settle it with the provider of the store"}
	locked        = meaning{mark: storage.ErrAway, cause: "a retention rule keeps the object from being changed", remedy: "remove object lock and holds from the bucket"}
	archived      = meaning{mark: storage.ErrAway, cause: "the object lies in an archive", remedy: "restore it, and remove the lifecycle rule that moves objects to an archive class"}
	noKey         = meaning{mark: storage.ErrAway, cause: "the server cannot use the bucket's encryption key", remedy: "enable the key, and let these credentials use it"}
	full          = meaning{mark: storage.ErrFull}
	absent        = meaning{mark: storage.ErrNotFound}
	noBucket      = meaning{mark: storage.ErrUnsuitable, cause: "the bucket does not exist", remedy: "create it, or correct the URL of the store"}
	elsewhere     = meaning{mark: storage.ErrUnsuitable, cause: "the bucket is in another region or behind another endpoint", remedy: "set region=… and endpoint=… in the URL of the store"}
	unable        = meaning{mark: storage.ErrUnsuitable, cause: "the server lacks a feature that the store needs", remedy: "use Amazon S3, versitygw, MinIO or Ceph 19 or newer"}
	wrongScheme   = meaning{mark: storage.ErrUnsuitable, cause: "the server speaks TLS", remedy: "begin the endpoint with https://"}
	limited       = meaning{mark: storage.ErrAway, cause: "the server or a proxy in front of it refuses objects of this size", remedy: "raise its limit"}
	bare          = meaning{mark: storage.ErrAway, cause: "the server refuses the request and does not say why, as with expired credentials", remedy: newKeys}
	unexplained   = meaning{mark: storage.ErrAway, cause: "the server refuses the request for a reason that this version does not know"}
)

// meanings maps error codes of Amazon S3, MinIO, Ceph, versitygw and Google Cloud Storage.
// Other codes are classified by status, see byStatus.
var meanings = spread([]row{
	{busy, `InternalError ServiceUnavailable SlowDown SlowDownRead SlowDownWrite Busy ServerBusy
		Throttling ThrottlingException RequestThrottled RequestLimitExceeded RateLimitExceeded TooManyRequests BandwidthLimitExceeded
		RequestTimeout RequestTimeoutException RequestError ResponseInterrupted ConnectionClosedByRequester ClientDisconnected
		OperationAborted ConditionalRequestConflict ExistingObjectIsDirectory Conflict TemporaryRedirect
		XMinioServerNotInitialized XMinioBackendDown XMinioAdminCredentialsMismatch NoSuchUpload`},
	{damagedOnWay, `BadDigest IncompleteBody XAmzContentSHA256Mismatch XAmzContentChecksumMismatch ContentSHA256Mismatch CrcMismatch
		InvalidChunkSizeError MissingRequestBodyError UnexpectedContent`},
	{expired, `ExpiredToken ExpiredTokenException TokenRefreshRequired RequestExpired`},
	{denied, `AccessDenied AccessForbidden Forbidden Unauthorized UnauthorizedAccess UnauthorizedAccessError AuthFailure
		InvalidToken InvalidTokenId InvalidClientTokenId TokenCodeInvalidError InvalidIdentityToken
		InvalidAccessKeyId XAdminUserNotFound XMinioAdminNoSuchUser NoSuchUser SignatureDoesNotMatch InvalidSignature InvalidSecurity InvalidCredentials
		MissingSecurityHeader MissingAuthenticationToken LoginRequired UserProjectAccessDenied SecurityPolicyViolated UnexpectedIPError InvalidPayer`},
	{skewed, `RequestTimeTooSkewed AccessDeniedTimeSkewed RequestInTheFuture`},
	{accountClosed, `AccountProblem AllAccessDisabled NotSignedUp UserSuspended AccountNotEntitled UserProjectAccountProblem`},
	{locked, `ObjectLocked ObjectUnderActiveHold RetentionPolicyNotMet InvalidBucketState`},
	{archived, `InvalidObjectState RestoreAlreadyInProgress`},
	{noKey, `KMS.DisabledException KMS.InvalidKeyUsageException KMS.KMSInvalidStateException KMS.NotFoundException
		KMSNotConfigured CloudKmsBadKey CloudKmsDisabledKey CloudKmsDecryptionKeyNotFound CloudKmsEncryptionKeyNotFound`},
	{full, `XMinioStorageFull XMinioAdminBucketQuotaExceeded QuotaExceeded InsufficientCapacity InsufficientQuota TooManyObjects`},
	{absent, `NoSuchKey NoSuchVersion`},
	{noBucket, `NoSuchBucket InvalidBucketName`},
	{elsewhere, `PermanentRedirect Redirect AuthorizationHeaderMalformed IllegalLocationConstraintException InvalidLocationConstraint InvalidRegion EndpointNotFound`},
	{unable, `NotImplemented MethodNotAllowed UnsupportedSignature UnsupportedArgument CredentialsNotSupported MissingContentLength`},
	{wrongScheme, `XMinioInsecureClientRequest InsecureTransport`},
	{requestFault, `PreconditionFailed NotModified InvalidRange InvalidArgument InvalidRequest InvalidDigest InvalidURI
		EntityTooLarge EntityTooSmall KeyTooLong KeyTooLongError MetadataTooLarge InlineDataTooLarge MalformedXML RequestHeaderSectionTooLarge
		XMinioInvalidObjectName XMinioParentIsObject XMinioObjectExistsAsDirectory ObjectParentIsFile DirectoryObjectContainsData APINotSupported`},
})

// row gives one meaning to several codes, separated by spaces.
type row struct {
	meaning
	codes string
}

func spread(rows []row) map[string]meaning {
	byCode := make(map[string]meaning)
	for _, r := range rows {
		for _, code := range strings.Fields(r.codes) {
			byCode[code] = r.meaning
		}
	}
	return byCode
}

// byStatus returns the meaning of an answer without a known code; answers to HEAD have no
// code. Requests differ only in the object's name and content, so an unknown error counts as
// trouble of the store, not as a fault of the request.
func byStatus(status int) meaning {
	switch {
	case status == http.StatusInsufficientStorage:
		return full
	case status == http.StatusNotImplemented, status == http.StatusMethodNotAllowed:
		return unable
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly,
		status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
		return busy
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return denied
	case status == http.StatusPreconditionFailed, status == http.StatusRequestedRangeNotSatisfiable:
		return requestFault
	case status == http.StatusRequestEntityTooLarge:
		return limited
	case status >= 300 && status < 400:
		return elsewhere
	}
	return unexplained
}
