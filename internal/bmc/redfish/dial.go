package redfish

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"quantix/internal/bmc"
	"quantix/internal/egress"
)

// Time limits of a connection, and of everything that one call does.
const (
	dialTimeout = 10 * time.Second
	callTimeout = 30 * time.Second
)

const addressAdvice = "A BMC may be in a private network or on the Internet. Other networks need the portal's setting bmcTo."

// privateNetworks are the networks of most BMCs.
var privateNetworks = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("fc00::/7"),
}

// metadataNetworks are addresses of clouds' metadata services in private networks.
var metadataNetworks = []netip.Prefix{netip.MustParsePrefix("fd00:ec2::254/128")}

// Connector connects to BMCs. It is safe for concurrent use.
type Connector struct {
	dialer *egress.Dialer
	limit  time.Duration
}

// New returns a Connector to BMCs in private networks, on the public Internet and in the allowed networks. Loopback,
// link-local and metadata addresses need to be allowed. The rules apply to the address of each connection, so that a
// change in DNS does not bypass them.
func New(allowed []netip.Prefix) *Connector {
	d := egress.NewDialer(append(slices.Clone(privateNetworks), allowed...), addressAdvice)
	d.Refused = metadataNetworks
	return &Connector{dialer: d, limit: callTimeout}
}

// CheckAddress refuses an IP address in a URL to which the Connector does not connect. Names are only checked when it
// connects.
func (c *Connector) CheckAddress(s bmc.Spec) error {
	at, _ := s.URL()
	if at == nil {
		return nil
	}
	if a, err := netip.ParseAddr(at.Hostname()); err == nil {
		return c.dialer.Check(a)
	}
	return nil
}

// dial connects to the address of the spec within dialTimeout.
func (c *Connector) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return c.dialer.DialContext(ctx, network, address)
}

// Fingerprint returns the SHA-256 of a certificate in hexadecimal.
func Fingerprint(certificate []byte) string {
	sum := sha256.Sum256(certificate)
	return hex.EncodeToString(sum[:])
}

// errNoPin is the error of a call that would send credentials to a BMC without a known certificate.
var errNoPin = &Error{Text: "The certificate of the BMC is not pinned yet. Wait for the first check, or request a test."}

// tlsConfig returns the settings that accept only the certificate that the spec trusts.
func tlsConfig(s bmc.Spec, host string) (*tls.Config, error) {
	if s.Trust == bmc.TrustCA {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(s.CA)) {
			return nil, errorf("The authority of the BMC has no certificate.")
		}
		return &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12}, nil
	}
	if s.Fingerprint == "" {
		return nil, errNoPin
	}
	return anyCertificate(host, func(presented string) error {
		if presented != s.Fingerprint {
			return errorf("The certificate of the BMC has changed. Its fingerprint is %s, and %s is pinned. No password was sent. "+
				"If the certificate was replaced, edit the BMC and pin the new one.", presented, s.Fingerprint)
		}
		return nil
	}), nil
}

// anyCertificate returns the settings of a connection whose certificate only check verifies, by its fingerprint.
func anyCertificate(host string, check func(fingerprint string) error) *tls.Config {
	return &tls.Config{
		ServerName: host, MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares the certificate with the pinned one
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return errors.New("no certificate")
			}
			return check(Fingerprint(state.PeerCertificates[0].Raw))
		},
	}
}

// FirstFingerprint returns the fingerprint of the certificate that the BMC presents. It sends no credentials.
func (c *Connector) FirstFingerprint(ctx context.Context, s bmc.Spec) (string, error) {
	at, why := s.URL()
	if why != "" {
		return "", errorf("%s", why)
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	of := connection{via: &transport{host: at.Host}}
	port := at.Port()
	if port == "" {
		port = "443"
	}
	raw, err := c.dial(ctx, "tcp", net.JoinHostPort(at.Hostname(), port))
	if err != nil {
		return "", of.describe(err)
	}
	defer raw.Close()
	found := ""
	conn := tls.Client(raw, anyCertificate(at.Hostname(), func(fingerprint string) error { found = fingerprint; return nil }))
	if err := conn.HandshakeContext(ctx); err != nil {
		return "", of.describe(err)
	}
	return found, nil
}
