package web_test

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// For 30 days after its expiry, a host certificate can be renewed, so that a host that was offline returns without an
// administrator. All other calls refuse an expired certificate.
func TestExpiredHostCertificateRenewed(t *testing.T) {
	t.Parallel()
	p, agentURL := newPortalWithAgents(t)
	m := p.joinHost(agentURL, "h1")
	csr := newCSR(t, m.credentials.Certificate.PrivateKey.(*ecdsa.PrivateKey))
	ask := func(after time.Duration) (*wire.Client, error) {
		t.Helper()
		away, err := wire.NewClient(agentURL, func() wire.Credentials {
			return wire.Credentials{CA: m.credentials.CA, Certificate: p.expiredCertificate(t, m, after)}
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(away.Close)
		_, err = away.Renew(t.Context(), wire.RenewRequest{CSR: csr})
		return away, err
	}
	away, err := ask(29 * 24 * time.Hour)
	if err != nil {
		t.Fatalf("renewal 29 days after expiry: %v", err)
	}
	if _, err := away.Hello(t.Context(), wire.Hello{Instance: "h1", Fingerprint: "h1", Version: "1"}); wire.StatusOf(err) != 401 {
		t.Errorf("a hello with the expired certificate: %v", err)
	}
	if _, err := ask(31 * 24 * time.Hour); err == nil {
		t.Error("the certificate was renewed 31 days after its expiry")
	}
	p.execSQL("DELETE FROM hosts WHERE id = $1", m.id)
	if _, err := ask(time.Minute); wire.StatusOf(err) != 401 {
		t.Errorf("a removed host renewed its certificate: %v", err)
	}
}

// expiredCertificate returns a certificate for the key of agent m, signed by the portal's CA. It expired the given time
// ago.
func (p *portal) expiredCertificate(t *testing.T, m *simulatedAgent, ago time.Duration) tls.Certificate {
	t.Helper()
	authority, err := p.control.Authority(t.Context(), fleet.SystemActor)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := authority.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	keyBlock, _ := pem.Decode([]byte(keyPEM))
	key, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	own := m.credentials.Certificate.PrivateKey.(*ecdsa.PrivateKey)
	end := time.Now().Add(-ago)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: string(m.id)},
		URIs:      []*url.URL{{Scheme: "quantix", Host: "host", Path: "/" + string(m.id)}},
		NotBefore: end.Add(-24 * time.Hour), NotAfter: end, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, authority.Certificate(), own.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: own}
}
