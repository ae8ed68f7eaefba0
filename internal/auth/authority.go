package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	// hostClockSkew is how far a host's clock may be behind the portal's clock, so that the host accepts the portal's
	// new certificate.
	hostClockSkew = 48 * time.Hour
)

// Authority signs the certificates of hosts and of the agent listener. It is safe for concurrent use.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an authority with a new P-256 key, valid for ten years.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority's key: %w", err)
	}
	now := time.Now()
	a := &Authority{key: key, cert: &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Quantix host authority"},
		NotBefore:             now.Add(-hostClockSkew),
		NotAfter:              now.Add(authorityLife),
		IsCA:                  true,
		MaxPathLenZero:        true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}}
	der, err := a.sign(a.cert, key.Public())
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	return a, nil
}

// ParseAuthority parses the results of CertPEM and KeyPEM.
func ParseAuthority(certPEM, keyPEM string) (*Authority, error) {
	cert, err := ParseCertificate(certPEM)
	if err != nil {
		return nil, err
	}
	keyBlock, _ := pem.Decode([]byte(keyPEM))
	if keyBlock == nil {
		return nil, errNoPEM
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the authority's key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("the stored authority's key does not belong to its certificate; restore the database from a backup")
	}
	return &Authority{cert: cert, key: key}, nil
}

var errNoPEM = errors.New("the stored authority is not in PEM form; restore the database from a backup")

// ParseCertificate parses the result of CertPEM.
func ParseCertificate(certPEM string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(certPEM))
	if block == nil {
		return nil, errNoPEM
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	return cert, nil
}

// Certificate returns the authority's certificate.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// CertPEM returns the authority's certificate, the only one that agents trust.
func (a *Authority) CertPEM() string { return certPEM(a.cert.Raw) }

// KeyPEM returns the authority's private key in PKCS #8. It is stored only in the database, encrypted.
func (a *Authority) KeyPEM() (string, error) {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return "", fmt.Errorf("write the authority's key: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), nil
}

// Pool returns a certificate pool with only this authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Fingerprint returns the SHA-256 of a certificate in DER form, in hexadecimal, as join tokens contain it.
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}

// sign adds a random serial number to the template and returns the signed certificate in DER form.
func (a *Authority) sign(template *x509.Certificate, public crypto.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return der, nil
}

func certPEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
