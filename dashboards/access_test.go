package dashboards

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

func contextWith(r *http.Request, local net.Addr) context.Context {
	return context.WithValue(r.Context(), http.LocalAddrContextKey, local)
}

// requests are one of each route, with the role that it takes.
var requests = []struct {
	method, path, body string
	role               role
}{
	{"GET", "/api/v1/runs", "", reader},
	{"GET", "/api/v1/runs/x", "", reader},
	{"GET", "/api/v1/runs/x/results", "", reader},
	{"GET", "/api/v1/runs/x/model", "", reader},
	{"GET", "/api/v1/runs/x/cells/c01/model", "", reader},
	{"GET", "/api/v1/runs/x/logs", "", reader},
	{"GET", "/api/v1/runs/x/events", "", reader},
	{"HEAD", "/api/v1/runs", "", reader},
	{"HEAD", "/api/v1/events", "", reader},
	{"GET", "/api/v1/version", "", reader},
	{"GET", "/api/v1/session", "", reader},
	{"POST", "/api/v1/runs", `{"name":"x"}`, operator},
	{"POST", "/api/v1/runs/x/steer", pause, operator},
	{"PUT", "/api/v1/sources/" + emptyDigest, "", operator},
	{"GET", "/assets/style.css", "", nobody},
	{"GET", "/healthz", "", nobody},
	{"GET", "/readyz", "", nobody},
	{"GET", "/login", "", nobody},
}

const emptyDigest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestTokensGrantRoles(t *testing.T) {
	t.Parallel()
	api := newFake()
	api.set(func(s *status.Run) { s.Phase = runs.Done }) // so that streams end
	c, _ := start(t, api, Options{OperatorToken: operatorToken, ReaderToken: readerToken})
	for name, who := range map[string]struct {
		role   role
		header http.Header
	}{
		"no token":            {nobody, header()},
		"a wrong token":       {nobody, header("Authorization", "Bearer "+operatorToken+"x")},
		"part of the token":   {nobody, header("Authorization", "Bearer "+operatorToken[:16])},
		"an empty token":      {nobody, header("Authorization", "Bearer ")},
		"another scheme":      {nobody, header("Authorization", "Basic "+operatorToken)},
		"a wrong cookie":      {nobody, header("Cookie", sessionCookie+"="+operatorToken)},
		"the reader's":        {reader, header("Authorization", "Bearer "+readerToken)},
		"the reader's cookie": {reader, header("Cookie", sessionCookie+"="+sessionOf(readerToken))},
		"the operator's":      {operator, header("Authorization", "bearer "+operatorToken)},
		"operator's cookie":   {operator, header("Cookie", sessionCookie+"="+sessionOf(operatorToken))},
		"a wrong token beside a good cookie": {nobody,
			header("Authorization", "Bearer x", "Cookie", sessionCookie+"="+sessionOf(operatorToken))},
	} {
		for _, r := range requests {
			h := who.header.Clone()
			h.Set("Content-Type", "application/json")
			a := c.ask(t, r.method, r.path, strings.NewReader(r.body), h)
			switch {
			case who.role >= r.role && a.StatusCode >= 300:
				t.Errorf("%s: %s %s is refused: %s %s", name, r.method, r.path, a.Status, a.body)
			case who.role < r.role && who.role == nobody && a.StatusCode != http.StatusUnauthorized:
				t.Errorf("%s: %s %s gives %s, want 401", name, r.method, r.path, a.Status)
			case who.role < r.role && who.role == reader && a.StatusCode != http.StatusForbidden:
				t.Errorf("%s: %s %s gives %s, want 403", name, r.method, r.path, a.Status)
			}
		}
	}
}

func TestClientReportsMissingPermissions(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{OperatorToken: operatorToken, ReaderToken: readerToken})
	anonymous := client(t, c.base.String(), "")
	if _, err := anonymous.List(t.Context()); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("without a token: %v", err)
	}
	if _, err := anonymous.HasSource(t.Context(), key.Digest); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("without a token, HEAD: %v", err)
	}
	looking := client(t, c.base.String(), readerToken)
	if _, err := looking.Steer(t.Context(), "", runs.Entry{Kind: runs.PauseEntry}); !errors.Is(err, ErrForbidden) {
		t.Errorf("with the reader's token: %v", err)
	}
	if _, err := looking.PutSource(t.Context(), strings.NewReader("x")); !errors.Is(err, ErrForbidden) {
		t.Errorf("an upload with the reader's token: %v", err)
	}
}

func TestLoginAndLogout(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{OperatorToken: operatorToken, ReaderToken: readerToken})
	a := c.ask(t, "GET", "/runs/grid-0?colour=a%26b", nil, nil)
	if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/login?next=%2Fruns%2Fgrid-0%3Fcolour%3Da%2526b" {
		t.Fatalf("a page without a session: %s, %s", a.Status, a.Header.Get("Location"))
	}
	login := func(token, query string) answer {
		form := url.Values{"token": {token}}.Encode()
		return c.ask(t, "POST", "/login"+query, strings.NewReader(form), header("Content-Type", "application/x-www-form-urlencoded"))
	}
	if a := login("wrong", ""); a.StatusCode != http.StatusUnauthorized || len(a.Cookies()) != 0 || !strings.Contains(a.body, "not the token") {
		t.Errorf("a wrong token: %s, %v", a.Status, a.Cookies())
	}
	a = login(" "+readerToken+"\n", "?next=%2Fruns%2Fgrid-0")
	if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/runs/grid-0" || len(a.Cookies()) != 1 {
		t.Fatalf("the right token: %s, %s, %v", a.Status, a.Header.Get("Location"), a.Cookies())
	}
	cookie := a.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || strings.Contains(cookie.Value, readerToken) {
		t.Errorf("the cookie is %v", cookie)
	}
	with := header("Cookie", cookie.Name+"="+cookie.Value)
	if a := c.ask(t, "GET", "/api/v1/session", nil, with); a.body != `{"role":"reader","login":true}`+"\n" {
		t.Errorf("the session is %s", a.body)
	}
	if a := c.ask(t, "GET", "/runs/grid-0", nil, with); a.StatusCode != 200 {
		t.Errorf("the page with a session: %s", a.Status)
	}
	if a := c.ask(t, "POST", "/logout", nil, with); a.StatusCode != http.StatusSeeOther || a.Cookies()[0].MaxAge >= 0 {
		t.Errorf("logging out: %s, %v", a.Status, a.Cookies())
	}
}

func TestLoginRejectsForeignRedirects(t *testing.T) {
	t.Parallel()
	for _, next := range []string{
		"", "https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example", "/runs/../x", "/runs/%2e%2e/x", "/evil?/runs/x", "/runs/x/evil", "javascript:alert(1)", "/runs/x\r\nSet-Cookie: a=b",
	} {
		if got := localPage(next); got != "/" {
			t.Errorf("next=%q leads to %q", next, got)
		}
	}
}

// A link to any view, with its state, survives the login.
func TestLoginRedirectsToRequestedView(t *testing.T) {
	t.Parallel()
	links := []string{"/?q=paper", "/runs/x?colour=a%26b&rows=data.partition", "/runs/x/cells/c01?log=1", "/runs/x/privacy?cell=c01", "/compare?cells=a%2Fc01%2Cb%2Fc02"}
	for _, r := range new(Server).routes() {
		if view, ok := strings.CutPrefix(r.pattern, "GET /"); ok && r.role == reader && !strings.HasPrefix(view, "api/") {
			links = append(links, strings.NewReplacer("{$}", "", "{run}", "x", "{cell}", "c01").Replace("/"+view))
		}
	}
	for _, next := range links {
		if got := localPage(next); got != next {
			t.Errorf("next=%q leads to %q", next, got)
		}
	}
	if got := localPage("/runs/x?a=\r\nb"); strings.ContainsAny(got, "\r\n") {
		t.Errorf("a line break gets into %q", got)
	}
}

func TestServerWithoutTokensNeedsNoLogin(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{})
	if a := c.ask(t, "GET", "/login", nil, nil); a.Header.Get("Location") != "/" {
		t.Errorf("%s, %s", a.Status, a.Header.Get("Location"))
	}
	if a := c.ask(t, "GET", "/api/v1/session", nil, nil); a.body != `{"role":"operator","login":false}`+"\n" {
		t.Errorf("the session is %s", a.body)
	}
}

func TestServerRejectsInvalidOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"operator token is shorter":        {OperatorToken: "short"},
		"reader token is shorter":          {OperatorToken: operatorToken, ReaderToken: "short"},
		"no operator token":                {ReaderToken: readerToken},
		"equals the operator token":        {OperatorToken: operatorToken, ReaderToken: operatorToken},
		"needs an operator token":          {Hosts: []string{"runs.example.org"}},
		"both a certificate file and a ke": {CertificateFile: "x"},
		"is negative":                      {MaxSourceBytes: -1},
	} {
		if _, err := NewServer(newFake(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, want %q", o, err, name)
		}
	}
	_, err := NewServer(newFake(), Options{ReaderToken: "short", KeyFile: "x"})
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three mistakes give: %v", err)
	}
}

// fakeListener has an address and nothing else.
type fakeListener struct {
	net.Listener
	address net.Addr
	closed  bool
}

func (l *fakeListener) Addr() net.Addr { return l.address }
func (l *fakeListener) Close() error   { l.closed = true; return nil }

func TestServeRejectsUnprotectedPublicAddresses(t *testing.T) {
	t.Parallel()
	for _, ip := range []string{"0.0.0.0", "10.0.0.1", "::", "fe80::1"} {
		for _, o := range []Options{{}, {Insecure: true}, {OperatorToken: operatorToken}} {
			l := &fakeListener{address: &net.TCPAddr{IP: net.ParseIP(ip), Port: 80}}
			if err := newTestServer(t, newFake(), o).Serve(t.Context(), l); err == nil || !l.closed {
				t.Errorf("%s, %+v: %v, closed: %v", ip, o, err, l.closed)
			}
		}
		outside := &net.TCPAddr{IP: net.ParseIP(ip)}
		for _, o := range []Options{{OperatorToken: operatorToken, Insecure: true}, {OperatorToken: operatorToken, CertificateFile: "c", KeyFile: "k"}} {
			if err := o.CheckAddress(outside); err != nil {
				t.Errorf("%s, %+v: %v", ip, o, err)
			}
		}
	}
	if err := new(Options).CheckAddress(&net.UnixAddr{Name: "socket", Net: "unix"}); err != nil {
		t.Errorf("a socket of this machine: %v", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca := testserver.NewAuthority(t)
	pair := ca.Issue("server")
	api := newFake()
	s := newTestServer(t, api, Options{OperatorToken: operatorToken, CertificateFile: pair.Certificate, KeyFile: pair.Key})
	plain, _ := startOn(t, s, "127.0.0.1:0")
	address := strings.Replace(plain.base.String(), "http://", "https://", 1)
	_, err := client(t, address, operatorToken).List(t.Context())
	if err == nil || !strings.Contains(err.Error(), "ca=FILE") || strings.Contains(err.Error(), "is it running") {
		t.Errorf("an unknown certificate: %v", err)
	}
	c := client(t, address+"?ca="+ca.File, operatorToken)
	if err := c.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if digest, err := c.PutSource(t.Context(), strings.NewReader("over HTTP/2")); err != nil || len(api.sources[digest]) == 0 {
		t.Errorf("an upload: %v", err)
	}
	statuses := must.Get(c.Watch(t.Context(), ""))(t)
	next(t, statuses)
	api.set(func(s *status.Run) { s.Phase = runs.Done })
	ends(t, statuses)
	a := c.ask(t, "POST", "/login", strings.NewReader("token="+operatorToken), header("Content-Type", "application/x-www-form-urlencoded"))
	if len(a.Cookies()) != 1 || !a.Cookies()[0].Secure {
		t.Errorf("the cookie may travel without TLS: %v", a.Cookies())
	}
	if _, err := plain.List(t.Context()); err == nil {
		t.Error("plain HTTP was answered")
	}
}

func TestRenewedCertificateIsReloaded(t *testing.T) {
	t.Parallel()
	ca := testserver.NewAuthority(t)
	pair := ca.Issue("server", testserver.Expired)
	s := newTestServer(t, newFake(), Options{OperatorToken: operatorToken, CertificateFile: pair.Certificate, KeyFile: pair.Key})
	plain, _ := startOn(t, s, "127.0.0.1:0")
	address := strings.Replace(plain.base.String(), "http://", "https://", 1) + "?ca=" + ca.File
	// replace gives the file another time, however coarse the file system's clock is.
	renewals := 0
	replace := func(file string, data []byte) {
		renewals++
		must.Do(t, os.WriteFile(file, data, 0o600))
		must.Do(t, os.Chtimes(file, time.Time{}, time.Now().Add(time.Duration(renewals)*time.Hour)))
	}
	if err := client(t, address, operatorToken).Ready(t.Context()); err == nil {
		t.Error("an expired certificate was taken")
	}
	renewed := ca.Issue("renewed")
	certificate, err1 := os.ReadFile(renewed.Certificate)
	key, err2 := os.ReadFile(renewed.Key)
	must.Do(t, errors.Join(err1, err2))
	replace(pair.Certificate, certificate) // its key is still the one before
	if err := client(t, address, operatorToken).Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("half of a renewal: %v, want the certificate before", err)
	}
	replace(pair.Key, key)
	if err := client(t, address, operatorToken).Ready(t.Context()); err != nil {
		t.Errorf("a renewed one: %v", err)
	}
	replace(pair.Certificate, []byte("no certificate"))
	if err := client(t, address, operatorToken).Ready(t.Context()); err != nil {
		t.Errorf("a broken file has ended the service: %v", err)
	}
}

// checkUsedLink follows a link that has logged a browser in: that one goes on, another learns why
// it does not, and gets to the same page by the token.
func checkUsedLink(t *testing.T, c *Client, link string, session http.Header) {
	t.Helper()
	if a := c.ask(t, "GET", link, nil, nil); a.StatusCode != 401 || a.Header.Get("Set-Cookie") != "" || !strings.Contains(a.body, "This link was already used") {
		t.Errorf("the link again: %s %s", a.Status, a.body)
	}
	if a := c.ask(t, "GET", "/login?code=another-code-entirely", nil, nil); strings.Contains(a.body, "was used") {
		t.Errorf("a wrong code counts as used: %s", a.body)
	}
	link += "&next=%2Fruns%2Fgrid-0"
	if a := c.ask(t, "GET", link, nil, session); a.StatusCode != 303 || a.Header.Get("Location") != "/runs/grid-0" {
		t.Errorf("the link in the browser that it logged in: %s to %q", a.Status, a.Header.Get("Location"))
	}
	form := url.Values{"token": {operatorToken}}.Encode()
	if a := c.ask(t, "POST", link, strings.NewReader(form), header("Content-Type", "application/x-www-form-urlencoded")); a.StatusCode != 303 || a.Header.Get("Location") != "/runs/grid-0" {
		t.Errorf("the token after the link: %s to %q", a.Status, a.Header.Get("Location"))
	}
}

// A login code lets one browser in, once; nothing else about it does.
func TestALoginCodeWorksOnce(t *testing.T) {
	t.Parallel()
	const code = "login-code-of-the-tests"
	c, _ := start(t, newFake(), Options{OperatorToken: operatorToken, LoginCode: code})
	link := "/login?code=" + code
	if a := c.ask(t, "GET", "/login?code=another-code-entirely", nil, nil); a.StatusCode != 401 || a.Header.Get("Set-Cookie") != "" {
		t.Errorf("a wrong code: %s, cookie %q", a.Status, a.Header.Get("Set-Cookie"))
	}
	if a := c.ask(t, "HEAD", link, nil, nil); a.Header.Get("Set-Cookie") != "" {
		t.Error("a look at the link has used it up")
	}
	if a := c.ask(t, "GET", "/api/v1/runs", nil, header("Authorization", "Bearer "+code)); a.StatusCode != 401 {
		t.Errorf("the code as a token: %s", a.Status)
	}
	first := c.ask(t, "GET", link, nil, nil)
	cookies := first.Cookies()
	if first.StatusCode != 303 || first.Header.Get("Location") != "/" || len(cookies) != 1 {
		t.Fatalf("the link: %s to %q with %d cookies", first.Status, first.Header.Get("Location"), len(cookies))
	}
	session := header("Cookie", cookies[0].Name+"="+cookies[0].Value, "Content-Type", "application/json")
	if a := c.ask(t, "POST", "/api/v1/runs/latest/steer", strings.NewReader(pause), session); a.StatusCode != 200 {
		t.Errorf("steering from the page: %s %s", a.Status, a.body)
	}
	checkUsedLink(t, c, link, session)
	for want, o := range map[string]Options{"no operator token": {LoginCode: code}, "16 bytes": {OperatorToken: operatorToken, LoginCode: "short"}} {
		if _, err := NewServer(newFake(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A page is watched while a browser reads one of its streams. Programs, which send a token, do not count.
func TestThePageCountsOnlyBrowsersAsWatchers(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-26-characters-xx"
	s := newTestServer(t, newFake(), Options{OperatorToken: token})
	c, _ := startOn(t, s, "127.0.0.1:0")
	c.ask(t, "GET", "/api/v1/runs", nil, http.Header{"Authorization": {"Bearer " + token}})
	if s.Watched(time.Hour) {
		t.Error("a program looks at the page")
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, c.base.String()+"/api/v1/events", nil))(t)
	r.AddCookie(&http.Cookie{Name: sessionCookie, Value: sessionOf(token)})
	stream, err := http.DefaultClient.Do(r)
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatal(stream, err)
	}
	defer stream.Body.Close()
	if !s.Watched(0) {
		t.Error("nobody looks at a view whose stream is open")
	}
	stop()
	s.AwaitUnwatched(t.Context(), 30*time.Millisecond) // returns, as the browser has gone
	if s.Watched(0) || !s.Watched(time.Hour) {
		t.Error("the browser that has gone looks on, or never looked")
	}
}
