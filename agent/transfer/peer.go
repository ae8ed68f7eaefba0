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
	"time"

	"quantix/internal/fleet"
)

// Ticket opens one door once. Nobody but the sender has it until it is shown; everybody else knows its hash at most.
type Ticket [32]byte

// NewTicket makes one.
func NewTicket() Ticket {
	var t Ticket
	_, _ = rand.Read(t[:]) // it never fails
	return t
}

// Hash is what others are told of the ticket.
func (t Ticket) Hash() string {
	sum := sha256.Sum256(t[:])
	return hex.EncodeToString(sum[:])
}

// Self is who this host is.
type Self struct {
	Certificate tls.Certificate
	CA          *x509.CertPool // the portal's authority, and no other
}

// Peer is the one host that a transfer is with.
type Peer struct {
	Host    fleet.HostID
	KeyHash string // hexadecimal SHA-256 of its public key: of that very key, and of no other that the authority has signed
}

// ErrStranger is in the error of a handshake with anybody but the peer.
var ErrStranger = errors.New("that is not the host which the portal named")

// check lets nobody but the peer through: a certificate of the authority that is valid now, for that host, with that key.
func (p Peer) check(ca *x509.CertPool, state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return fmt.Errorf("%w: it shows no certificate", ErrStranger)
	}
	cert := state.PeerCertificates[0]
	want, err := hex.DecodeString(p.KeyHash)
	if sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo); err != nil || !bytes.Equal(sum[:], want) || p.Host == "" || cert.Subject.CommonName != string(p.Host) {
		return fmt.Errorf("%w: its certificate is another's", ErrStranger)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: ca, CurrentTime: time.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return fmt.Errorf("%w: %w", ErrStranger, err)
	}
	return nil
}

// settings are TLS 1.3, both sides with their hosts' certificates. A host has no name by which another would know it, so that is not
// asked for; who it is check says, for the key alone counts.
func settings(own Self, peer Peer) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{own.Certificate},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, //nolint:gosec // VerifyConnection asks for more than a name
		SessionTicketsDisabled: true, // each transfer proves itself anew
		VerifyConnection:       func(s tls.ConnectionState) error { return peer.check(own.CA, s) },
	}
}
