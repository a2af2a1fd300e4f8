package dashboards

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
)

// role is a level of permission; a higher one includes the lower.
type role int

const (
	nobody role = iota
	reader
	operator
)

func (r role) String() string { return [...]string{"nobody", "reader", "operator"}[r] }

// credential is a token in its two forms: unchanged in an Authorization header,
// and as a hash in a browser's cookie, so that the cookie does not reveal the
// token. Servers with the same token accept each other's cookies; another token
// ends all sessions.
type credential struct {
	role    role
	token   [sha256.Size]byte // hashed, so that comparing takes the same time for all lengths
	session string
}

// access holds the permissions of credentials.
type access struct {
	open        bool // no tokens: every client is an operator
	credentials []credential

	code string // logs in once; may be empty

	mu       sync.Mutex
	redeemed bool
}

// redeem returns the operator's credential for the login code, the first time, and the
// zero credential otherwise. It reports whether the code was right but already used.
func (a *access) redeem(code string) (c credential, used bool) {
	if a.code == "" || subtle.ConstantTimeCompare([]byte(a.code), []byte(code)) != 1 {
		return credential{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.redeemed {
		return credential{}, true
	}
	a.redeemed = true
	return a.credentials[0], false
}

func newAccess(o Options) *access {
	a := &access{open: o.OperatorToken == "", code: o.LoginCode}
	for _, t := range []struct {
		role  role
		token string
	}{{operator, o.OperatorToken}, {reader, o.ReaderToken}} {
		if t.token != "" {
			a.credentials = append(a.credentials, credential{t.role, sha256.Sum256([]byte(t.token)), sessionOf(t.token)})
		}
	}
	return a
}

func sessionOf(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("coalmine browser session"))
	return hex.EncodeToString(mac.Sum(nil))
}

// role returns the role of the sender of the request. A token in the header
// takes precedence.
func (a *access) role(r *http.Request) role {
	if a.open {
		return operator
	}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok {
		if !strings.EqualFold(scheme, "Bearer") {
			return nobody
		}
		return a.byToken(strings.TrimSpace(token)).role
	}
	if c, err := r.Cookie(sessionCookie); err == nil {
		return a.bySession(c.Value)
	}
	return nobody
}

// byToken returns the credential of a token in constant time, or the zero
// credential.
func (a *access) byToken(token string) credential {
	var found credential
	sum := sha256.Sum256([]byte(token))
	for _, c := range a.credentials {
		if subtle.ConstantTimeCompare(c.token[:], sum[:]) == 1 {
			found = c
		}
	}
	return found
}

func (a *access) bySession(session string) role {
	found := nobody
	for _, c := range a.credentials {
		if subtle.ConstantTimeCompare([]byte(c.session), []byte(session)) == 1 {
			found = c.role
		}
	}
	return found
}
