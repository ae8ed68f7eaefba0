package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

const hostID = fleet.HostID("0190a1b2-0000-7000-8000-000000000001")

func newAuthority(t *testing.T) *Authority {
	t.Helper()
	a, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newCSR(t *testing.T, key crypto.Signer) string {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "another-host"}, DNSNames: []string{"portal.example"},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func parseCert(t *testing.T, certificate string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(certificate))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestStoredAuthorityIsRestored(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	key, err := a.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseAuthority(a.CertPEM(), key)
	if err != nil {
		t.Fatal(err)
	}
	if Fingerprint(again.Certificate()) != Fingerprint(a.Certificate()) {
		t.Error("another fingerprint")
	}
	if life := time.Until(a.Certificate().NotAfter); life < authorityLife-time.Hour {
		t.Errorf("valid for %v only", life)
	}
	if _, err := ParseAuthority(newAuthority(t).CertPEM(), key); err == nil {
		t.Error("took another authority's key")
	}
}

func TestHostCertificateIgnoresNamesInCSR(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []crypto.Signer{newKey(t), edKey} {
		text, err := a.IssueHost(hostID, newCSR(t, key))
		if err != nil {
			t.Fatal(err)
		}
		cert := parseCert(t, text)
		if id, ok := HostOf(cert); !ok || id != hostID || len(cert.DNSNames) != 0 || cert.IsCA {
			t.Errorf("names %q, %v, CA %v", id, cert.DNSNames, cert.IsCA)
		}
		if life := time.Until(cert.NotAfter); life > HostCertLife || life < HostCertLife-time.Minute {
			t.Errorf("valid for %v", life)
		}
		as := func(use x509.ExtKeyUsage) error {
			_, err := cert.Verify(x509.VerifyOptions{Roots: a.Pool(), KeyUsages: []x509.ExtKeyUsage{use}})
			return err
		}
		if err := as(x509.ExtKeyUsageClientAuth); err != nil {
			t.Error(err)
		}
		if as(x509.ExtKeyUsageServerAuth) == nil {
			t.Error("a host could pose as the portal")
		}
	}
}

func TestInvalidCSRRefused(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	bigKey, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(newCSR(t, newKey(t))))
	block.Bytes[len(block.Bytes)-1] ^= 1
	for name, csr := range map[string]string{
		"empty": "", "no PEM": "hello", "a certificate": a.CertPEM(), "RSA": newCSR(t, rsaKey), "P-384": newCSR(t, bigKey),
		"forged": string(pem.EncodeToMemory(block)), "huge": strings.Repeat("x", maxCSR+1),
	} {
		_, err := a.IssueHost(hostID, csr)
		var c fleet.Checks
		if CheckCSR(&c, csr); fleet.CodeOf(err) != fleet.Invalid || c.Err() == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHostOfAcceptsOnlyHostCertificates(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	server, err := a.IssueServer([]string{"localhost"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := a.IssueHost(hostID, newCSR(t, newKey(t)))
	if err != nil {
		t.Fatal(err)
	}
	expired := *parseCert(t, text)
	expired.NotAfter = time.Now().Add(-time.Second)
	for name, cert := range map[string]*x509.Certificate{"none": nil, "the portal's": server.Leaf, "the authority's": a.cert, "expired": &expired} {
		if id, ok := HostOf(cert); ok {
			t.Errorf("%s certificate names host %q", name, id)
		}
	}
}

// handshake performs one TLS handshake and returns the errors of both sides.
func handshake(t *testing.T, server, client *tls.Config) (peer []*x509.Certificate, serverErr, clientErr error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	done := make(chan struct{})
	srv := tls.Server(far, server)
	go func() {
		defer close(done)
		if serverErr = srv.HandshakeContext(ctx); serverErr == nil {
			_, serverErr = srv.Write([]byte{1})
		}
		far.Close()
	}()
	cli := tls.Client(near, client)
	if clientErr = cli.HandshakeContext(ctx); clientErr == nil {
		_, clientErr = cli.Read(make([]byte, 1))
	}
	near.Close()
	<-done
	return srv.ConnectionState().PeerCertificates, serverErr, clientErr
}

func TestAgentAndPortalAuthenticateEachOther(t *testing.T) {
	t.Parallel()
	a, foreign := newAuthority(t), newAuthority(t)
	server, err := a.ServerTLS([]string{"portal.example", "192.0.2.1"})
	if err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	client := func(by *Authority, trusts *Authority, name string) *tls.Config {
		text, err := by.IssueHost(hostID, newCSR(t, key))
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{
			RootCAs: trusts.Pool(), ServerName: name,
			Certificates: []tls.Certificate{{Certificate: [][]byte{parseCert(t, text).Raw}, PrivateKey: key}},
		}
	}
	for _, name := range []string{"portal.example", "192.0.2.1"} {
		peer, serverErr, clientErr := handshake(t, server, client(a, a, name))
		if serverErr != nil || clientErr != nil || len(peer) == 0 {
			t.Fatalf("%s: %v, %v", name, serverErr, clientErr)
		}
		if id, ok := HostOf(peer[0]); !ok || id != hostID {
			t.Errorf("%s: the portal sees host %q", name, id)
		}
	}
	if _, serverErr, _ := handshake(t, server, client(foreign, a, "portal.example")); serverErr == nil {
		t.Error("portal accepted a host of another authority")
	}
	if _, _, clientErr := handshake(t, server, client(a, foreign, "portal.example")); clientErr == nil {
		t.Error("agent accepted a portal of another authority")
	}
	if _, _, clientErr := handshake(t, server, client(a, a, "other.example")); clientErr == nil {
		t.Error("agent accepted another name")
	}
	if peer, serverErr, clientErr := handshake(t, server, &tls.Config{RootCAs: a.Pool(), ServerName: "portal.example"}); serverErr != nil || clientErr != nil || len(peer) != 0 {
		t.Errorf("a joining agent has no certificate yet: %v, %v", serverErr, clientErr)
	}
}

func TestExpiredHostCertificateAllowsOnlyRenewal(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	server, err := a.ServerTLS([]string{"portal.example"})
	if err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	const day = 24 * time.Hour
	for age, want := range map[time.Duration]struct{ enters, isHost, renews bool }{
		0:                    {true, true, true},
		day - time.Minute:    {true, true, true},
		day + time.Minute:    {true, false, true},
		31*day - time.Minute: {true, false, true},
		31*day + time.Minute: {false, false, false},
	} {
		text, err := a.issueHost(hostID, newCSR(t, key), time.Now().Add(-age))
		if err != nil {
			t.Fatal(err)
		}
		cert := parseCert(t, text)
		client := &tls.Config{RootCAs: a.Pool(), ServerName: "portal.example", Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}}
		if _, serverErr, _ := handshake(t, server, client); (serverErr == nil) != want.enters {
			t.Errorf("a certificate made %s ago: the portal's listener says %v", age, serverErr)
		}
		if _, ok := HostOf(cert); ok != want.isHost {
			t.Errorf("a certificate made %s ago identifies its host: %v", age, ok)
		}
		if id, ok := HostOfRenewableCert(cert); ok != want.renews || ok && id != hostID {
			t.Errorf("a certificate made %s ago can be renewed: %v, %q", age, ok, id)
		}
	}
	foreign, err := newAuthority(t).issueHost(hostID, newCSR(t, key), time.Now().Add(-2*day))
	if err != nil {
		t.Fatal(err)
	}
	client := &tls.Config{RootCAs: a.Pool(), ServerName: "portal.example", Certificates: []tls.Certificate{{Certificate: [][]byte{parseCert(t, foreign).Raw}, PrivateKey: key}}}
	if _, serverErr, _ := handshake(t, server, client); serverErr == nil {
		t.Error("portal accepted an expired certificate of another authority")
	}
}

func TestServerCertificateReplacedBeforeExpiry(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	first, err := a.IssueServer([]string{"localhost"})
	if err != nil {
		t.Fatal(err)
	}
	s := &ServerCert{authority: a, hosts: []string{"localhost"}, cert: &first}
	if len(first.Certificate) != 2 {
		t.Error("the chain lacks the authority, which a joining agent looks for")
	}
	for days, same := range map[int]bool{0: true, 19: true, 21: false} {
		s.cert = &first
		got, err := s.certificateAt(time.Now().Add(time.Duration(days) * 24 * time.Hour))
		if err != nil || (got == &first) != same {
			t.Errorf("after %d days: the same %v, %v", days, got == &first, err)
		}
	}
}
