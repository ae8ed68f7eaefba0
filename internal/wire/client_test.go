package wire_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"quantix/internal/wire"
)

// authority is a certificate authority for a test.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a := authority{t: t, key: key}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = a.sign(tmpl, tmpl, &key.PublicKey)
	return a
}

func (a authority) sign(tmpl, parent *x509.Certificate, key any) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, key, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, _ := x509.ParseCertificate(der)
	return cert
}

// issueLeaf returns a server certificate for ip, or a client certificate if ip is nil.
func (a authority) issueLeaf(ip net.IP) tls.Certificate {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip != nil {
		tmpl.IPAddresses = []net.IP{ip}
	}
	cert := a.sign(tmpl, a.cert, &key.PublicKey)
	return tls.Certificate{Certificate: [][]byte{cert.Raw, a.cert.Raw}, PrivateKey: key, Leaf: cert}
}

func (a authority) certPool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a authority) certPEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// startServer starts a server for ip with a certificate of the authority.
func (a authority) startServer(ip net.IP, h http.HandlerFunc) *httptest.Server {
	srv := httptest.NewUnstartedServer(h)
	srv.TLS = &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: a.certPool(),
		Certificates: []tls.Certificate{a.issueLeaf(ip)},
	}
	srv.StartTLS()
	a.t.Cleanup(srv.Close)
	return srv
}

var loopback = net.IPv4(127, 0, 0, 1)

func (a authority) client(url string) *wire.Client {
	a.t.Helper()
	c, err := wire.NewClient(url, func() wire.Credentials { return wire.Credentials{Certificate: a.issueLeaf(nil), CA: a.certPool()} })
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(c.Close)
	return c
}

func TestEachCallSendsSessionAndCertificate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	var session string
	var from []string
	srv := a.startServer(loopback, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if len(r.TLS.PeerCertificates) == 0 || r.Method != http.MethodPost || r.ProtoMajor != 1 {
			t.Errorf("%s %s without a certificate or over HTTP/%d", r.Method, r.URL, r.ProtoMajor)
		}
		session = r.Header.Get(wire.SessionHeader)
		from = append(from, r.RemoteAddr)
		switch r.URL.Path {
		case wire.PathHello:
			json.NewEncoder(w).Encode(wire.HelloAnswer{Session: "s-1", SeqBase: 7})
		case wire.PathClaim:
			w.WriteHeader(http.StatusNoContent)
		case wire.PathReport:
			json.NewEncoder(w).Encode(wire.ReportAnswer{Resend: true})
		}
	})
	c := a.client(srv.URL)
	if hello, err := c.Hello(t.Context(), wire.Hello{}); err != nil || hello.SeqBase != 7 {
		t.Fatalf("hello: %+v, %v", hello, err)
	}
	if got, err := c.Claim(t.Context(), wire.ClaimRequest{Max: 1}); err != nil || len(got.Jobs) != 0 || session != "s-1" {
		t.Errorf("claim: %+v, %v, session %q", got, err, session)
	}
	if got, err := c.Report(t.Context(), wire.Report{}); err != nil || !got.Resend {
		t.Errorf("report: %+v, %v", got, err)
	}
	if from[1] != from[0] || from[2] != from[0] {
		t.Errorf("three sequential calls came from %v", from)
	}
	c.ReloadCredentials()
	if _, err := c.Report(t.Context(), wire.Report{}); err != nil || from[3] == from[0] {
		t.Errorf("after new credentials: %v, from %v", err, from)
	}
}

func TestPortalRefusalHasStatusAndDetail(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	srv := a.startServer(loopback, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case wire.PathRenew:
			w.WriteHeader(http.StatusConflict)
			io.WriteString(w, `{"title":"Conflict","detail":"Another agent is at work."}`)
		case wire.PathHello:
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case wire.PathReport:
			w.Write(make([]byte, 17<<20))
		default:
			http.Error(w, "<html>", http.StatusBadGateway)
		}
	})
	c := a.client(srv.URL)
	_, err := c.Renew(t.Context(), wire.RenewRequest{})
	var e *wire.Error
	if !errors.As(err, &e) || e.Status != 409 || e.Detail != "Another agent is at work." {
		t.Errorf("renew: %v", err)
	}
	if _, err := c.Hello(t.Context(), wire.Hello{}); wire.StatusOf(err) != 307 {
		t.Errorf("a redirect was followed: %v", err)
	}
	if _, err := c.Report(t.Context(), wire.Report{}); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("a huge answer: %v", err)
	}
	if _, err := c.DialRelay(t.Context(), "", "c-1"); wire.StatusOf(err) != 502 {
		t.Errorf("console: %v", err)
	}
}

func TestOnlyPinnedAuthorityTrusted(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	unreachable := func(http.ResponseWriter, *http.Request) { t.Error("call reached an untrusted server") }
	for what, srv := range map[string]*httptest.Server{
		"another authority": other.startServer(loopback, unreachable), "another name": a.startServer(net.IPv4(10, 0, 0, 1), unreachable),
	} {
		if _, err := a.client(srv.URL).Hello(t.Context(), wire.Hello{}); err == nil || wire.StatusOf(err) != 0 {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := a.client(srv.URL).DialRelay(t.Context(), srv.URL, "c"); err == nil {
			t.Errorf("%s: the console was dialled", what)
		}
	}
}

func TestJoinVerifiesThePortalByTheToken(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	token := wire.NewJoinToken(a.cert.Raw)
	answerCA := a.certPEM()
	join := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("the bearer is %q", r.Header.Get("Authorization"))
		}
		json.NewEncoder(w).Encode(wire.JoinAnswer{HostID: "h", Certificate: wire.Certificate{Cert: "c", CA: answerCA}})
	}
	srv := a.startServer(loopback, join)
	if out, err := wire.Join(t.Context(), srv.URL, token, wire.JoinRequest{}); err != nil || out.HostID != "h" {
		t.Fatalf("join: %+v, %v", out, err)
	}
	answerCA = other.certPEM()
	if _, err := wire.Join(t.Context(), srv.URL, token, wire.JoinRequest{}); err == nil || !strings.Contains(err.Error(), "not the one that the join token names") {
		t.Errorf("an answer with another authority: %v", err)
	}
	untrusted := func(http.ResponseWriter, *http.Request) { t.Error("token sent to an untrusted server") }
	for what, bad := range map[string]*httptest.Server{
		"another authority": other.startServer(loopback, untrusted), "another name": a.startServer(net.IPv4(10, 0, 0, 1), untrusted),
	} {
		if _, err := wire.Join(t.Context(), bad.URL, token, wire.JoinRequest{}); err == nil {
			t.Errorf("%s: joined", what)
		}
	}
	// A server is refused if it sends the right authority's certificate with a server certificate of another authority.
	forged := httptest.NewUnstartedServer(http.HandlerFunc(untrusted))
	leaf := other.issueLeaf(loopback)
	leaf.Certificate = append(leaf.Certificate[:1], a.cert.Raw)
	forged.TLS = &tls.Config{Certificates: []tls.Certificate{leaf}}
	forged.StartTLS()
	defer forged.Close()
	if _, err := wire.Join(t.Context(), forged.URL, token, wire.JoinRequest{}); err == nil {
		t.Error("forged chain accepted")
	}
	for _, bad := range []string{"", "qxj_", "qxj_abc", "qxj_abc.12", strings.TrimPrefix(token, "qxj_")} {
		if _, err := wire.Join(t.Context(), srv.URL, bad, wire.JoinRequest{}); err == nil {
			t.Errorf("the token %q was accepted", bad)
		}
	}
}

func TestInvalidPortalAddressIsRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "portal", "http://portal:8444", "https://", "https://a:b@portal", "https://portal/x"} {
		if _, err := wire.NewClient(bad, func() wire.Credentials { return wire.Credentials{} }); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestCallReturnsWhenContextExpires(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	srv := a.startServer(loopback, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := a.client(srv.URL).Claim(ctx, wire.ClaimRequest{Max: 1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("claim: %v", err)
	}
}
