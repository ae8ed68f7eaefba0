package wire

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// tokenPrefix marks join tokens for secret scanners and people.
const tokenPrefix = "qxj_"

// NewJoinToken returns a token with a new 256-bit secret and the fingerprint of the authority's certificate (DER):
// "qxj_<base64url secret>.<hex sha256>". With the fingerprint, the agent verifies the portal before it sends anything.
func NewJoinToken(ca []byte) string {
	var secret [32]byte
	rand.Read(secret[:])
	sum := sha256.Sum256(ca)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:]) + "." + hex.EncodeToString(sum[:])
}

// tokenFingerprint returns the SHA-256 of the authority's certificate, which the token contains.
func tokenFingerprint(token string) ([]byte, error) {
	secret, sum, ok := strings.Cut(strings.TrimPrefix(token, tokenPrefix), ".")
	fingerprint, err := hex.DecodeString(sum)
	if !ok || err != nil || len(fingerprint) != sha256.Size || secret == "" || !strings.HasPrefix(token, tokenPrefix) {
		return nil, errors.New(`this is not a join token, which starts with "qxj_": copy the whole command from Hosts, Add host`)
	}
	return fingerprint, nil
}

// verifyPinnedAuthority checks that the chain contains the authority with that fingerprint, that the authority has signed the
// leaf certificate, and that the leaf is valid now and for name. It replaces a CA pool, which a joining host does not
// have yet. name is a parameter because ConnectionState.ServerName is empty after dialling an IP address.
func verifyPinnedAuthority(fingerprint []byte, name string) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		for _, cert := range state.PeerCertificates {
			sum := sha256.Sum256(cert.Raw)
			if !bytes.Equal(sum[:], fingerprint) {
				continue
			}
			roots := x509.NewCertPool()
			roots.AddCert(cert)
			intermediates := x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				intermediates.AddCert(c)
			}
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
				DNSName: name, Roots: roots, Intermediates: intermediates,
			})
			if err != nil {
				return fmt.Errorf("the portal's certificate: %w", err)
			}
			return nil
		}
		return errors.New("the server at this address is not the portal that made the join token")
	}
}
