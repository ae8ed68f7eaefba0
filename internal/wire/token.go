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

// tokenPrefix marks join tokens, so that secret scanners and people recognise them.
const tokenPrefix = "qxj_"

// NewJoinToken makes a token of a fresh 256-bit secret and the fingerprint of the authority's certificate (DER):
// "qxj_<base64url secret>.<hex sha256>". The fingerprint makes joining safe from the first byte.
func NewJoinToken(ca []byte) string {
	var secret [32]byte
	rand.Read(secret[:])
	sum := sha256.Sum256(ca)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:]) + "." + hex.EncodeToString(sum[:])
}

// tokenFingerprint is the sha256 of the authority's certificate that the token names.
func tokenFingerprint(token string) ([]byte, error) {
	secret, sum, ok := strings.Cut(strings.TrimPrefix(token, tokenPrefix), ".")
	fingerprint, err := hex.DecodeString(sum)
	if !ok || err != nil || len(fingerprint) != sha256.Size || secret == "" || !strings.HasPrefix(token, tokenPrefix) {
		return nil, errors.New(`this is no join token: it starts with "qxj_"; copy the whole command from Hosts, Add host`)
	}
	return fingerprint, nil
}

// verifyPinned checks that the chain contains the authority with that fingerprint and that the leaf, valid now and for
// the name or address that was dialled, is signed by it. It takes the place of a CA pool, which a joining host does not
// have yet. name is given, for ConnectionState.ServerName is empty where an IP address was dialled.
func verifyPinned(fingerprint []byte, name string) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		for _, cert := range state.PeerCertificates {
			sum := sha256.Sum256(cert.Raw)
			if !bytes.Equal(sum[:], fingerprint) {
				continue
			}
			roots := x509.NewCertPool()
			roots.AddCert(cert)
			between := x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				between.AddCert(c)
			}
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
				DNSName: name, Roots: roots, Intermediates: between,
			})
			if err != nil {
				return fmt.Errorf("the portal's certificate: %w", err)
			}
			return nil
		}
		return errors.New("the server at this address is not the portal that made the join token")
	}
}
