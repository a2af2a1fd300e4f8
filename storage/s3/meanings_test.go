package s3

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"coalmine/storage"
)

// TestS3CodesAreClassified has a row for each row of the table: the status of the
// codes, and the storage error that the rest of the program tests for.
func TestS3CodesAreClassified(t *testing.T) {
	t.Parallel()
	const wait, room, gone, refuse, fail = "wait", "make room", "not found", "refuse", "fail the task"
	tested := make(map[string]bool)
	for _, row := range []struct {
		does   string
		status int
		says   string // a part of the message
		codes  string
	}{
		{wait, 503, "", `InternalError ServiceUnavailable SlowDown SlowDownRead SlowDownWrite Busy ServerBusy
			Throttling ThrottlingException RequestThrottled RequestLimitExceeded RateLimitExceeded TooManyRequests BandwidthLimitExceeded
			RequestError ResponseInterrupted ConnectionClosedByRequester ClientDisconnected TemporaryRedirect NoSuchUpload
			XMinioServerNotInitialized XMinioBackendDown XMinioAdminCredentialsMismatch`},
		{wait, 400, "", `RequestTimeout RequestTimeoutException`},
		{wait, 409, "", `OperationAborted ConditionalRequestConflict ExistingObjectIsDirectory Conflict`},
		{wait, 400, "damaged", `BadDigest IncompleteBody XAmzContentSHA256Mismatch XAmzContentChecksumMismatch ContentSHA256Mismatch CrcMismatch
			InvalidChunkSizeError MissingRequestBodyError UnexpectedContent`},
		{wait, 400, "AWS_SHARED_CREDENTIALS_FILE", `ExpiredToken ExpiredTokenException TokenRefreshRequired RequestExpired
			InvalidToken InvalidTokenId InvalidClientTokenId TokenCodeInvalidError InvalidIdentityToken MissingSecurityHeader InvalidSignature`},
		{wait, 403, "AWS_SHARED_CREDENTIALS_FILE", `AccessDenied AccessForbidden Forbidden Unauthorized UnauthorizedAccess UnauthorizedAccessError AuthFailure
			InvalidAccessKeyId NoSuchUser SignatureDoesNotMatch InvalidSecurity InvalidCredentials MissingAuthenticationToken LoginRequired
			UserProjectAccessDenied SecurityPolicyViolated UnexpectedIPError InvalidPayer`},
		{wait, 404, "AWS_SHARED_CREDENTIALS_FILE", `XAdminUserNotFound XMinioAdminNoSuchUser`},
		{wait, 403, "set the clock", `RequestTimeTooSkewed AccessDeniedTimeSkewed RequestInTheFuture`},
		{wait, 403, "suspended", `AccountProblem AllAccessDisabled NotSignedUp UserSuspended AccountNotEntitled UserProjectAccountProblem`},
		{wait, 403, "retention", `ObjectLocked ObjectUnderActiveHold RetentionPolicyNotMet InvalidBucketState`},
		{wait, 403, "archive", `InvalidObjectState RestoreAlreadyInProgress`},
		{wait, 400, "encryption key", `KMS.DisabledException KMS.InvalidKeyUsageException KMS.KMSInvalidStateException KMS.NotFoundException
			KMSNotConfigured CloudKmsBadKey CloudKmsDisabledKey CloudKmsDecryptionKeyNotFound CloudKmsEncryptionKeyNotFound`},
		{room, 403, "", `XMinioStorageFull XMinioAdminBucketQuotaExceeded QuotaExceeded InsufficientCapacity InsufficientQuota TooManyObjects`},
		{gone, 404, "", `NoSuchKey NoSuchVersion`},
		{refuse, 404, "create it", `NoSuchBucket InvalidBucketName`},
		{refuse, 400, "region=", `PermanentRedirect Redirect AuthorizationHeaderMalformed IllegalLocationConstraintException InvalidLocationConstraint InvalidRegion EndpointNotFound`},
		{refuse, 501, "use Amazon S3", `NotImplemented MethodNotAllowed UnsupportedSignature UnsupportedArgument CredentialsNotSupported MissingContentLength`},
		{refuse, 400, "https://", `XMinioInsecureClientRequest InsecureTransport`},
		{fail, 400, "", `PreconditionFailed NotModified InvalidRange InvalidArgument InvalidRequest InvalidDigest InvalidURI
			EntityTooLarge EntityTooSmall KeyTooLong KeyTooLongError MetadataTooLarge InlineDataTooLarge MalformedXML RequestHeaderSectionTooLarge
			XMinioInvalidObjectName XMinioParentIsObject XMinioObjectExistsAsDirectory ObjectParentIsFile DirectoryObjectContainsData APINotSupported`},
		// Of codes that nobody knows, and of answers without one, the status decides.
		{wait, 500, "", "x-new-code"},
		{wait, 429, "", "x-new-code"},
		{wait, 403, "credentials", "x-new-code"},
		{wait, 400, "x-new-code", "x-new-code"},
		{wait, 404, "x-new-code", "x-new-code"},
		{wait, 413, "limit", "x-new-code"},
		{wait, 0, "x-new-code", "x-new-code"}, // one of several objects, whose errors have no status
		{room, 507, "", "x-new-code"},
		{refuse, 301, "region=", "x-new-code"},
		{refuse, 501, "use Amazon S3", "x-new-code"},
		{fail, 412, "", "x-new-code"},
	} {
		for _, code := range strings.Fields(row.codes) {
			tested[code] = true
			err := explain(minio.ErrorResponse{Code: code, StatusCode: row.status, Message: "the server's own words"})
			if got := does(err); got != row.does {
				t.Errorf("%s with status %d: %s, want: %s (%v)", code, row.status, got, row.does, err)
			}
			if !strings.Contains(err.Error(), row.says) || !strings.Contains(err.Error(), "the server's own words") {
				t.Errorf("%s with status %d: %q does not say %q and the server's own words", code, row.status, err, row.says)
			}
		}
	}
	for code := range meanings {
		if !tested[code] {
			t.Errorf("code %s of the table is not tested", code)
		}
	}
}

// does returns the reaction of the program to an error.
func does(err error) string {
	for mark, does := range map[error]string{
		storage.ErrAway: "wait", storage.ErrFull: "make room", storage.ErrNotFound: "not found", storage.ErrUnsuitable: "refuse",
	} {
		if errors.Is(err, mark) {
			return does
		}
	}
	return "fail the task"
}

// The answer to HEAD has no body: with expired credentials it is just "400 Bad Request".
func TestBadRequestWithoutBodyNamesExpiredCredentials(t *testing.T) {
	t.Parallel()
	err := explain(minio.ErrorResponse{Code: "400 Bad Request", StatusCode: 400, Message: "400 Bad Request"})
	if !storage.IsTrouble(err) || !strings.Contains(err.Error(), "expired credentials") {
		t.Errorf("got %v", err)
	}
	trouble, ok := errors.AsType[*storage.KnownError](err)
	if !ok || slices.Contains([]string{"", err.Error()}, trouble.Brief()) {
		t.Errorf("no brief cause in %v", err)
	}
}

// Servers refuse to change a locked object with codes that have other meanings.
func TestObjectLockErrorNamesRemedy(t *testing.T) {
	t.Parallel()
	for code, message := range map[string]string{
		"AccessDenied":   "Access Denied because object protected by object lock.",
		"InvalidRequest": "Object is WORM protected and cannot be overwritten",
	} {
		err := explain(minio.ErrorResponse{Code: code, StatusCode: 403, Message: message})
		if !errors.Is(err, storage.ErrAway) || !strings.Contains(err.Error(), "remove object lock") {
			t.Errorf("%s: %v", code, err)
		}
	}
}
