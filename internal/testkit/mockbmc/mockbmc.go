// Package mockbmc is a Redfish service for tests: an HTTPS server that answers as a vendor's BMC does, and that can also
// hang, lie, and answer garbage.
package mockbmc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"
)

// Credentials that the mock accepts.
const (
	User     = "quantix"
	Password = "s3cret-of-the-bmc"
)

// Mode is how the mock answers.
type Mode string

const (
	Honest      Mode = ""             // as a good BMC
	Hangs       Mode = "hangs"        // takes requests and never answers
	HangsReset  Mode = "hangs reset"  // executes a reset and never answers it
	DropsReset  Mode = "drops reset"  // executes a reset and closes the connection without an answer
	Lies        Mode = "lies"         // accepts a reset and does nothing
	Refuses     Mode = "refuses"      // refuses a reset with a Redfish error
	Breaks      Mode = "breaks"       // answers a reset with a server error
	Garbage     Mode = "garbage"      // answers HTML
	Empty       Mode = "empty"        // answers empty objects
	WrongTypes  Mode = "wrong types"  // answers a number where the power state is a word
	Huge        Mode = "huge"         // answers without an end, fast
	Drips       Mode = "drips"        // answers without an end, slowly
	Redirects   Mode = "redirects"    // redirects to another address
	OtherLinks  Mode = "other links"  // names its reset action by a link to another machine
	OddWords    Mode = "odd words"    // reports control characters and very long texts
	Unsupported Mode = "unsupported"  // supports no forced reset
	Forgets     Mode = "forgets user" // refuses the credentials
	Repeats     Mode = "repeats"      // repeats the credentials in its answers
)

// BMC is a running mock.
type BMC struct {
	Address string // https URL
	layout  Layout
	server  *http.Server
	closed  chan struct{}

	mu          sync.Mutex
	certificate tls.Certificate
	mode        Mode
	power       string
	pending     string // power state that a reset leads to, after lag further reads
	lag, left   int
	resets      []string
	requests    int
	signedIn    int // requests with credentials
	conns       map[net.Conn]bool
	onPower     func(state string)
	reads       chan struct{} // receives a token after each read of the system
}

// Start starts a mock on the address, such as "127.0.0.1:0". Close ends it.
func Start(address string, layout Layout) (*BMC, error) {
	l, err := net.Listen("tcp", address) //nolint:noctx // a test's listener
	if err != nil {
		return nil, err
	}
	b := &BMC{layout: layout, power: "On", closed: make(chan struct{}), conns: map[net.Conn]bool{}, reads: make(chan struct{}, 1000)}
	host := l.Addr().(*net.TCPAddr).IP //nolint:forcetypeassert // a TCP listener
	if b.certificate, err = newCertificate(host); err != nil {
		return nil, err
	}
	b.Address = "https://" + l.Addr().String()
	b.server = &http.Server{
		Handler: http.HandlerFunc(b.serve), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
		ConnState: func(c net.Conn, s http.ConnState) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.conns[c] = true; s == http.StateClosed || s == http.StateHijacked {
				delete(b.conns, c)
			}
		},
	}
	secure := tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		c := b.certificate
		return &c, nil
	}})
	go func() { _ = b.server.Serve(secure) }()
	return b, nil
}

// Close ends the mock and its connections.
func (b *BMC) Close() {
	close(b.closed)
	_ = b.server.Close()
}

func newCertificate(ip net.IP) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return tls.Certificate{}, err
	}
	of := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "bmc"}, IPAddresses: []net.IP{ip}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, err
}

// Fingerprint returns the SHA-256 of the mock's certificate.
func (b *BMC) Fingerprint() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	sum := sha256.Sum256(b.certificate.Certificate[0])
	return hex.EncodeToString(sum[:])
}

// CA returns the mock's self-signed certificate in PEM.
func (b *BMC) CA() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.certificate.Certificate[0]}))
}

// ChangeCertificate gives the mock a new certificate.
func (b *BMC) ChangeCertificate() error {
	c, err := newCertificate(net.IPv4(127, 0, 0, 1))
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.certificate = c
	return nil
}

// SetMode changes how the mock answers from now on.
func (b *BMC) SetMode(m Mode) { b.mu.Lock(); defer b.mu.Unlock(); b.mode = m }

// SetPower sets the power state: "On" or "Off".
func (b *BMC) SetPower(state string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.power, b.pending = state, ""
}

// SetLag lets the power state change only after some further reads of the system.
func (b *BMC) SetLag(reads int) { b.mu.Lock(); defer b.mu.Unlock(); b.lag = reads }

// OnPower calls do with each new power state that a reset leads to.
func (b *BMC) OnPower(do func(state string)) { b.mu.Lock(); defer b.mu.Unlock(); b.onPower = do }

// Power returns the power state.
func (b *BMC) Power() string { b.mu.Lock(); defer b.mu.Unlock(); return b.power }

// Resets returns the received commands.
func (b *BMC) Resets() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.resets...)
}

// Requests returns the number of requests, and of those with credentials.
func (b *BMC) Requests() (all, signedIn int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests, b.signedIn
}

// Reads receives a token after each read of the system.
func (b *BMC) Reads() <-chan struct{} { return b.reads }
