package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"sync"
	"time"
)

const serverCertLife = 30 * 24 * time.Hour

// IssueServer returns a certificate for the agent listener at these names or IP addresses, valid for 30 days. Its new
// key stays in memory. The chain includes the authority's certificate, so that a joining agent can check the
// fingerprint.
func (a *Authority) IssueServer(hosts []string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make the listener's key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Quantix portal"},
		NotBefore:             now.Add(-hostClockSkew),
		NotAfter:              now.Add(serverCertLife),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := a.sign(template, key.Public())
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read the listener's certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// NewServerCert returns a certificate for the agent listener at these names or IP addresses. It is replaced before it
// expires.
func (a *Authority) NewServerCert(hosts []string) (*ServerCert, error) {
	first, err := a.IssueServer(hosts)
	if err != nil {
		return nil, err
	}
	return &ServerCert{authority: a, hosts: hosts, cert: &first}, nil
}

// ServerTLS returns the TLS configuration of a listener that uses a certificate from NewServerCert.
func (a *Authority) ServerTLS(hosts []string) (*tls.Config, error) {
	s, err := a.NewServerCert(hosts)
	if err != nil {
		return nil, err
	}
	return s.TLS(), nil
}

// ServerCert is the certificate of the agent listener. After two thirds of its lifetime it is replaced by a new one. It
// is safe for concurrent use.
type ServerCert struct {
	authority *Authority
	hosts     []string

	mu   sync.Mutex
	cert *tls.Certificate
}

// TLS returns the configuration of the agent listener: TLS 1.3, and client certificates of this authority only. The
// handshake also accepts clients without a certificate, for joins, and expired certificates, for renewals. Therefore
// every handler must check HostOf or HostOfRenewableCert.
func (s *ServerCert) TLS() *tls.Config {
	return &tls.Config{
		MinVersion:       tls.VersionTLS13,
		ClientAuth:       tls.RequestClientCert, // verified by verifyHost
		ClientCAs:        s.authority.Pool(),
		VerifyConnection: s.authority.verifyHost,
		NextProtos:       []string{"http/1.1"},
		GetCertificate:   func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificateAt(time.Now()) },
	}
}

// Renew issues a new key and certificate, which later handshakes use.
func (s *ServerCert) Renew() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renew()
}

// Validity returns the validity period of the certificate in use. It first replaces the certificate if that is due.
func (s *ServerCert) Validity() (Validity, error) {
	cert, err := s.certificateAt(time.Now())
	if err != nil {
		return Validity{}, err
	}
	return Validity{Use: "agents", From: cert.Leaf.NotBefore, Until: cert.Leaf.NotAfter}, nil
}

func (s *ServerCert) certificateAt(now time.Time) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cert.Leaf.NotAfter.Sub(now) < serverCertLife/3 {
		if err := s.renew(); err != nil {
			return nil, err
		}
	}
	return s.cert, nil
}

func (s *ServerCert) renew() error {
	next, err := s.authority.IssueServer(s.hosts)
	if err == nil {
		s.cert = &next
	}
	return err
}
