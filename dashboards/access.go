package dashboards

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"coalmine/internal/goroutines"
)

// role is a level of permission; a higher one includes the lower.
type role int

const (
	nobody role = iota
	reader
	operator
)

func (r role) String() string { return [...]string{"nobody", "reader", "operator"}[r] }

// credential is a token in its two forms: unchanged in an Authorization header, and as a hash in a
// browser's cookie, so that the cookie does not reveal the token. Servers with the same token accept
// each other's cookies; another token ends all sessions.
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

// role returns the role of the sender of the request. A token in the header takes precedence.
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
		return a.matching([]byte(c.Value), func(c *credential) []byte { return []byte(c.session) }).role
	}
	return nobody
}

// byToken returns the credential of a token, or the zero credential.
func (a *access) byToken(token string) credential {
	sum := sha256.Sum256([]byte(token))
	return a.matching(sum[:], func(c *credential) []byte { return c.token[:] })
}

// matching returns the credential with a secret in one of its forms, in constant time.
func (a *access) matching(secret []byte, form func(*credential) []byte) (found credential) {
	for _, c := range a.credentials {
		if subtle.ConstantTimeCompare(form(&c), secret) == 1 {
			found = c
		}
	}
	return found
}

// audience tracks the requests of logged-in browsers.
type audience struct {
	mu     sync.Mutex
	active int // requests in progress; streams last as long as a view is seen
	last   time.Time
}

// note counts a request of a browser until the returned function is called.
func (a *audience) note(r *http.Request) (leave func()) {
	if _, err := r.Cookie(sessionCookie); err != nil {
		return func() {}
	}
	a.add(1)
	return func() { a.add(-1) }
}

func (a *audience) add(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.active, a.last = a.active+n, time.Now()
}

// Watched reports whether a browser shows the page, or did so within the given time.
func (s *Server) Watched(within time.Duration) bool {
	a := &s.audience
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.active > 0 || !a.last.IsZero() && time.Since(a.last) < within
}

// AwaitUnwatched waits until no browser has shown the page for the given time, or ctx is done.
func (s *Server) AwaitUnwatched(ctx context.Context, within time.Duration) {
	for s.Watched(within) && goroutines.Sleep(ctx, within/30) == nil {
	}
}

const (
	loginPath     = "/login"
	sessionCookie = "coalmine_session"
	sessionLength = 30 * 24 * time.Hour
	maxLoginBytes = 16 << 10
)

// showLogin shows the form, unless no login is needed, or a code has just logged in.
func (s *Server) showLogin(w http.ResponseWriter, r *http.Request) error {
	if s.access.open {
		http.Redirect(w, r, s.external.path("/"), http.StatusSeeOther)
		return nil
	}
	code := r.URL.Query().Get("code")
	if code == "" || r.Method != http.MethodGet {
		return s.writeLogin(w, http.StatusOK, newLogin)
	}
	c, used := s.access.redeem(code)
	switch {
	case c.role != nobody:
		s.enter(w, r, c)
	case used && s.access.role(r) != nobody: // this browser is in already
		s.goOn(w, r)
	case used:
		return s.writeLogin(w, http.StatusUnauthorized, usedLink)
	default:
		return s.writeLogin(w, http.StatusUnauthorized, failedLogin)
	}
	return nil
}

// loginForm is the text of the login page.
type loginForm struct{ Title, Notice, Hint string }

const loginHint = "A token of the server: the operator token, or the read token."

var (
	newLogin    = loginForm{Title: "Log in", Hint: loginHint}
	failedLogin = loginForm{"Log in", "That is not the token of this server.", loginHint}
	usedLink    = loginForm{
		"Link already used", "This link was already used: it logs in one browser, once.",
		"Enter the server's operator token; for a home directory it is in owner.json. You then reach the page of the link.",
	}
)

func (s *Server) writeLogin(w http.ResponseWriter, status int, form loginForm) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = form.page(s.external).Render(w)
	return nil
}

// page returns the page with the form, at an address behind a proxy.
func (f loginForm) page(x external) g.Node {
	icon := x.path("/assets/icon.svg")
	return h.Doctype(h.HTML(h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.TitleEl(g.Text(f.Title+" – Coalmine")),
			h.Link(h.Rel("icon"), h.Href(icon), h.Type("image/svg+xml")),
			h.Link(h.Rel("stylesheet"), h.Href(x.path("/assets/style.css"))),
		),
		h.Body(
			h.Header(h.Class("bar"), h.A(h.Class("brand"), h.Href(x.path("/")),
				h.Img(h.Src(icon), h.Alt(""), h.Width("22"), h.Height("22")), g.Text(" Coalmine"))),
			h.Main(h.Class("narrow"), h.H1(g.Text("Log in")), h.Form(h.Method("post"), h.Class("card"),
				g.If(f.Notice != "", h.P(h.Class("notice bad"), h.Role("alert"), g.Text(f.Notice))),
				h.Label(h.For("token"), g.Text("Token")),
				h.Input(h.ID("token"), h.Name("token"), h.Type("password"), h.AutoComplete("current-password"), h.Required(), h.AutoFocus()),
				h.P(h.Class("hint"), g.Text(f.Hint)),
				h.Button(h.Class("primary"), g.Text("Log in")),
			)),
		),
	))
}

// login turns a token into a cookie that no script can read and no foreign page can have sent.
func (s *Server) login(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginBytes)
	c := s.access.byToken(strings.TrimSpace(r.PostFormValue("token")))
	if c.role == nobody {
		return s.writeLogin(w, http.StatusUnauthorized, failedLogin)
	}
	s.enter(w, r, c)
	return nil
}

// enter begins a session and redirects to the requested page.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, c credential) {
	s.setSession(w, c.session, int(sessionLength.Seconds()))
	s.goOn(w, r)
}

// goOn redirects to the requested page.
func (s *Server) goOn(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, s.external.path(localPage(r.URL.Query().Get("next"))), http.StatusSeeOther)
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) error {
	s.setSession(w, "", -1)
	http.Redirect(w, r, s.external.path(loginPath), http.StatusSeeOther)
	return nil
}

func (s *Server) setSession(w http.ResponseWriter, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: value, Path: s.external.path("/"), MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.options.CertificateFile != "" || s.external.secure(),
	})
}

var viewPath = regexp.MustCompile(`^/(compare|workers|runs/[a-z0-9._-]+(/privacy|/cells/[a-z0-9._-]+)?)?$`)

// localPage returns the view of this server, with its parameters, to open after the
// login. It never returns a foreign address.
func localPage(target string) string {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !viewPath.MatchString(u.Path) {
		return "/"
	}
	view := url.URL{Path: u.Path, RawQuery: u.Query().Encode()}
	return view.String()
}

// showSession describes the session's permissions to a page.
func (s *Server) showSession(r *http.Request) (session, error) {
	return session{s.access.role(r).String(), !s.access.open}, nil
}

// session is the answer to GET /session.
type session struct {
	Role  string `json:"role"`
	Login bool   `json:"login"` // whether there is a session to end
}
