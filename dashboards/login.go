package dashboards

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

const (
	loginPath     = "/login"
	sessionCookie = "coalmine_session"
	sessionLength = 30 * 24 * time.Hour
	maxLoginBytes = 16 << 10
)

// showLogin shows the form, unless no login is needed, or a code has just
// logged in.
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
		"This link was used", "This link was used: it logs one browser in, once.",
		"The token that the server was started with, or, of a home, the one in owner.json there. Then the link leads to where it was meant to lead.",
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

// login turns a token into a cookie that no script can read and no foreign
// page can have sent.
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
