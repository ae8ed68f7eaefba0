package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"quantix/internal/fleet"
)

const (
	// HostCertLife is how long a host's certificate is valid.
	HostCertLife = 24 * time.Hour
	// portalClockSkew is how far the clock of another portal may be behind. Only portals check hosts' certificates by
	// a clock.
	portalClockSkew = time.Hour
	// RenewalGrace is how long after its expiry a certificate can still be renewed, because a portal or host may be
	// down for longer than a certificate is valid. When a user removes a host, its certificates are revoked at once,
	// including expired ones.
	RenewalGrace = 30 * 24 * time.Hour
	maxCSR       = 16 << 10 // bytes
)

// IssueHost signs a client certificate for the host, valid for 24 h. Its common name is the host's ID, and its URI is
// quantix://host/<id>. Only the key is taken from the request (PEM), P-256 or Ed25519; the request's subject and
// extensions are ignored. An invalid request is an Invalid error at the field "csr".
func (a *Authority) IssueHost(id fleet.HostID, csr string) (certificate string, err error) {
	return a.issueHost(id, csr, time.Now())
}

func (a *Authority) issueHost(id fleet.HostID, csr string, now time.Time) (certificate string, err error) {
	key, err := publicKeyOfCSR(csr)
	if err != nil {
		return "", err
	}
	der, err := a.sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: string(id)},
		URIs:                  []*url.URL{hostURI(id)},
		NotBefore:             now.Add(-portalClockSkew),
		NotAfter:              now.Add(HostCertLife),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, key)
	if err != nil {
		return "", err
	}
	return certPEM(der), nil
}

// CheckCSR adds an error at the field "csr" if IssueHost would refuse the request.
func CheckCSR(c *fleet.Checks, csr string) {
	if _, err := publicKeyOfCSR(csr); err != nil {
		c.Add("csr", "%s", err.Error())
	}
}

// verifyHost accepts clients without a certificate. Otherwise the certificate must be a host certificate of this
// authority that is valid, or expired for less than RenewalGrace.
func (a *Authority) verifyHost(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	cert := state.PeerCertificates[0]
	if err := cert.CheckSignatureFrom(a.cert); err != nil {
		return fmt.Errorf("the certificate is not signed by this portal's authority: %w", err)
	}
	if !slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return errors.New("the certificate is not a client certificate")
	}
	if now := time.Now(); now.Before(cert.NotBefore) || now.After(cert.NotAfter.Add(RenewalGrace)) {
		return fmt.Errorf("the certificate is valid only from %s to %s", cert.NotBefore, cert.NotAfter)
	}
	return nil
}

// HostOf returns the host ID in a certificate that TLS has verified. ok is false for other certificates and for expired
// ones: a connection may outlive its certificate.
func HostOf(cert *x509.Certificate) (fleet.HostID, bool) { return hostIDFromCert(cert, 0) }

// HostOfRenewableCert is HostOf for renewals: the certificate may have expired within the last 30 days.
func HostOfRenewableCert(cert *x509.Certificate) (fleet.HostID, bool) {
	return hostIDFromCert(cert, RenewalGrace)
}

func hostIDFromCert(cert *x509.Certificate, grace time.Duration) (fleet.HostID, bool) {
	if cert == nil || len(cert.URIs) != 1 || time.Now().After(cert.NotAfter.Add(grace)) {
		return "", false
	}
	id, ok := strings.CutPrefix(cert.URIs[0].String(), "quantix://host/")
	return fleet.HostID(id), ok && id != "" && id == cert.Subject.CommonName
}

// KeyHash returns the SHA-256 of the public key in a host's certificate.
func KeyHash(cert *x509.Certificate) []byte {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return sum[:]
}

// CSRKeyHash returns the KeyHash of the certificate that IssueHost would issue for the request csr.
func CSRKeyHash(csr string) ([]byte, error) {
	key, err := publicKeyOfCSR(csr)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("write the request's key: %w", err)
	}
	sum := sha256.Sum256(der)
	return sum[:], nil
}

func hostURI(id fleet.HostID) *url.URL {
	return &url.URL{Scheme: "quantix", Host: "host", Path: "/" + string(id)}
}

func publicKeyOfCSR(csr string) (crypto.PublicKey, error) {
	refuse := func(text string) error {
		var c fleet.Checks
		c.Add("csr", "%s", text)
		return c.Err()
	}
	if len(csr) > maxCSR {
		return nil, refuse("The certificate request is larger than 16 KiB.")
	}
	block, _ := pem.Decode([]byte(csr))
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, refuse("Send a certificate request (PKCS #10) in PEM form.")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || request.CheckSignature() != nil {
		return nil, refuse("The certificate request is damaged: its signature does not match its key.")
	}
	switch key := request.PublicKey.(type) {
	case ed25519.PublicKey:
		return key, nil
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			return key, nil
		}
	}
	return nil, refuse("The certificate request's key must be ECDSA P-256 or Ed25519.")
}
