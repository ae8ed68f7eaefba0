package transfer

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"

	"quantix/internal/fleet"
)

// Ticket admits one connection at a listener. Only the sender has the ticket until it presents the ticket to the
// receiver; the portal and the receiver know only the hash.
type Ticket [32]byte

// NewTicket returns a random ticket.
func NewTicket() Ticket {
	var t Ticket
	_, _ = rand.Read(t[:]) // rand.Read never fails
	return t
}

// Hash returns the ticket's SHA-256 in hexadecimal, which reveals nothing about the ticket.
func (t Ticket) Hash() string {
	sum := sha256.Sum256(t[:])
	return hex.EncodeToString(sum[:])
}

// HostIdentity is this host's identity.
type HostIdentity struct {
	Certificate tls.Certificate
	CA          *x509.CertPool // contains only the portal's authority
}

// Peer is the other host of a transfer.
type Peer struct {
	Host    fleet.HostID
	KeyHash string // hexadecimal SHA-256 of the host's public key: no other key is accepted
}

// ErrWrongPeer is wrapped by the error of a handshake with a host other than the peer.
var ErrWrongPeer = errors.New("the connected host is not the one that the portal named")

// checkCertificate accepts only a certificate of the authority for the peer's host and key. The certificate's validity
// period does not matter: the portal checked it by its own clock before it named the key for this transfer, and this
// host's clock may be wrong. The check is made for the end of the certificate's life, because a portal whose clock was set
// back signs certificates that begin before the authority. One that ends after the authority is useless soon anyway.
func (p Peer) checkCertificate(ca *x509.CertPool, state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return fmt.Errorf("%w: the host sent no certificate", ErrWrongPeer)
	}
	cert := state.PeerCertificates[0]
	want, err := hex.DecodeString(p.KeyHash)
	if sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo); err != nil || !bytes.Equal(sum[:], want) || p.Host == "" || cert.Subject.CommonName != string(p.Host) {
		return fmt.Errorf("%w: the certificate belongs to another host", ErrWrongPeer)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: ca, CurrentTime: cert.NotAfter, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return fmt.Errorf("%w: %w", ErrWrongPeer, err)
	}
	return nil
}

// tlsConfig requires TLS 1.3 with certificates of both hosts. Hosts have no DNS names, so checkCertificate verifies the
// key instead of a name.
func tlsConfig(own HostIdentity, peer Peer) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{own.Certificate},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, //nolint:gosec // VerifyConnection asks for more than a name
		SessionTicketsDisabled: true, // each transfer authenticates again
		VerifyConnection:       func(s tls.ConnectionState) error { return peer.checkCertificate(own.CA, s) },
	}
}
