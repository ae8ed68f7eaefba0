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
	hostCertLife = 24 * time.Hour
	// lapse is how long after its end a certificate can still be renewed: a portal, or a host, may be away for longer than
	// certificates live. Removing a host ends its certificates at once, lapsed or not.
	lapse  = 30 * 24 * time.Hour
	maxCSR = 16 << 10 // bytes
)

// IssueHost signs a client certificate of 24 h for the host: its common name is the host's id, its URI is
// quantix://host/<id>. Of the request (PEM) only the key counts, P-256 or Ed25519; its subject and extensions are ignored.
// A request that is none is Invalid at the field "csr".
func (a *Authority) IssueHost(id fleet.HostID, csr string) (certificate string, err error) {
	return a.issueHost(id, csr, time.Now())
}

func (a *Authority) issueHost(id fleet.HostID, csr string, now time.Time) (certificate string, err error) {
	key, err := requestKey(csr)
	if err != nil {
		return "", err
	}
	der, err := a.sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: string(id)},
		URIs:                  []*url.URL{hostURI(id)},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(hostCertLife),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, key)
	if err != nil {
		return "", err
	}
	return certPEM(der), nil
}

// CheckCSR notes at the field "csr" why IssueHost would refuse the request.
func CheckCSR(c *fleet.Checks, csr string) {
	if _, err := requestKey(csr); err != nil {
		c.Add("csr", "%s", err.Error())
	}
}

// verifyHost accepts client certificates of this authority for hosts that are valid or lapsed, and clients that show none.
func (a *Authority) verifyHost(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	cert := state.PeerCertificates[0]
	if err := cert.CheckSignatureFrom(a.cert); err != nil {
		return fmt.Errorf("not of this portal's authority: %w", err)
	}
	if !slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return errors.New("not a client's certificate")
	}
	if now := time.Now(); now.Before(cert.NotBefore) || now.After(cert.NotAfter.Add(lapse)) {
		return fmt.Errorf("valid from %s to %s", cert.NotBefore, cert.NotAfter)
	}
	return nil
}

// HostOf reads the host's id from a certificate that TLS has verified; false where it is no host's certificate, or no
// longer valid: a connection may outlive the certificate that opened it.
func HostOf(cert *x509.Certificate) (fleet.HostID, bool) { return hostWithin(cert, 0) }

// LapsedHostOf is HostOf for renewal alone: the certificate may have ended within the last 30 days.
func LapsedHostOf(cert *x509.Certificate) (fleet.HostID, bool) { return hostWithin(cert, lapse) }

func hostWithin(cert *x509.Certificate, grace time.Duration) (fleet.HostID, bool) {
	if cert == nil || len(cert.URIs) != 1 || time.Now().After(cert.NotAfter.Add(grace)) {
		return "", false
	}
	id, ok := strings.CutPrefix(cert.URIs[0].String(), "quantix://host/")
	return fleet.HostID(id), ok && id != "" && id == cert.Subject.CommonName
}

// KeyHash is the sha256 of the public key that a host's certificate is for.
func KeyHash(cert *x509.Certificate) []byte {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return sum[:]
}

// RequestKeyHash is the KeyHash of the certificate that IssueHost makes of the request.
func RequestKeyHash(csr string) ([]byte, error) {
	key, err := requestKey(csr)
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

func requestKey(csr string) (crypto.PublicKey, error) {
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
