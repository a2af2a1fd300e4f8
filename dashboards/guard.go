package dashboards

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"coalmine/internal/goroutines"
)

// Paths that need no token and no allowed Host: the probes of cluster managers send neither.
const (
	healthPath = "/healthz"
	readyPath  = "/readyz"
)

// metricsPath is the path for Prometheus. It takes a token as the API does.
const metricsPath = "/metrics"

// policy lets pages only load this server's files and send requests to it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// documentPolicy lets a standalone document, such as a report, have a style and embedded pictures, and
// load nothing. The document has no origin, so even a script in it could not act on the server.
const documentPolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors 'none'; sandbox allow-downloads"

// asDocument puts an answer under documentPolicy. Browsers refuse a document without an
// origin that requests isolation of its window.
func asDocument(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", documentPolicy)
	w.Header().Del("Cross-Origin-Opener-Policy")
}

// guard checks every request before it is routed.
func (s *Server) guard(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, errorKind{kind: "origin", status: http.StatusForbidden}, "requests from pages of another origin are refused")
	}))
	if s.external.origin != "" {
		// If a proxy passes another Host, the page's origin does not match it.
		_ = origin.AddTrustedOrigin(s.external.origin) // its form was checked
	}
	next = origin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if r.URL.Path != healthPath && r.URL.Path != readyPath && !s.answersTo(r) {
			writeError(w, errorKind{kind: "host", status: http.StatusMisdirectedRequest},
				"this server does not answer to the host name of the request; name it when you start the server")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answersTo reports whether the Host header names this server: localhost, one
// of the configured names, or the local address of the connection. The port
// does not matter, because an attacker can only redirect names.
func (s *Server) answersTo(r *http.Request) bool {
	host := hostName(r.Host)
	if host == "localhost" || s.external.host != "" && host == hostName(s.external.host) || slices.ContainsFunc(s.options.Hosts, func(name string) bool { return hostName(name) == host }) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	return ip.IsLoopback() || ip.Unmap() == localIP(r)
}

// hostName returns a Host header without port, brackets and final dot, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// localIP returns the local address of the request's connection.
func localIP(r *http.Request) netip.Addr {
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// external is the address of a server behind a proxy. The zero value is a server without a proxy.
type external struct {
	origin string // scheme and host; empty if there is no proxy
	host   string // without the port
	base   string // the path of the proxy, without a slash at its end
}

// basePath matches the allowed paths of an external URL, which are written into pages.
var basePath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)

// parseExternal parses Options.ExternalURL.
func parseExternal(text string) (external, error) {
	if text == "" {
		return external{}, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return external{}, errors.New("external URL: want https://host or https://host/path, as in a browser")
	}
	x := external{origin: u.Scheme + "://" + u.Host, host: u.Hostname(), base: strings.TrimRight(u.Path, "/")}
	if !basePath.MatchString(x.base) {
		return external{}, errors.New("external URL: the path may only hold letters, digits and -._~")
	}
	return x, nil
}

func (x external) secure() bool { return strings.HasPrefix(x.origin, "https:") }

// path returns the path under which browsers reach a path of this server.
func (x external) path(local string) string { return x.base + local }

// strip removes the proxy's path from requests, if the proxy has not.
func (x external) strip(next http.Handler) http.Handler {
	if x.base == "" {
		return next
	}
	stripped := http.StripPrefix(x.base, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == x.base:
			http.Redirect(w, r, x.path("/"), http.StatusSeeOther)
		case strings.HasPrefix(r.URL.Path, x.base+"/"):
			stripped.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// inPage adds the proxy's path to the addresses in a page.
func (x external) inPage(html string) string {
	return strings.NewReplacer(
		`<meta name="base" content="">`, `<meta name="base" content="`+x.base+`">`,
		`href="/`, `href="`+x.base+`/`,
		`src="/`, `src="`+x.base+`/`,
	).Replace(html)
}

// recovering answers requests after a panic of the handler, and logs the stack. An answer that
// has begun is cut off, so that it does not look complete.
func (s *Server) recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &sent{ResponseWriter: w}
		err := goroutines.Recover(func() error { next.ServeHTTP(answer, r); return nil })
		p, panicked := errors.AsType[*goroutines.Panic](err)
		switch {
		case !panicked:
		case p.Value == http.ErrAbortHandler: // the handler has logged the reason
			panic(http.ErrAbortHandler)
		case answer.begun:
			goroutines.LogPanic(s.options.Log, err, "method", r.Method, "path", r.URL.Path)
			panic(http.ErrAbortHandler)
		default:
			w.Header().Del("Content-Length")
			s.answerError(w, r, err)
		}
	})
}

// sent records whether a part of the answer was sent.
type sent struct {
	http.ResponseWriter
	begun bool
}

func (a *sent) WriteHeader(status int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

func (a *sent) Write(data []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (a *sent) Unwrap() http.ResponseWriter { return a.ResponseWriter }
