// Package fetch downloads one file by its URL and verifies its checksum. Downloads come only from the public Internet
// by default, and are limited in size and time.
package fetch

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"quantix/internal/download"
	"quantix/internal/egress"
	"quantix/internal/fleet"
)

// DefaultMaxBytes is the default limit of a download's size in bytes.
const DefaultMaxBytes = 64 << 30

const (
	maxRedirects        = 5
	maxHeaderBytes      = 64 << 10
	defaultStallTimeout = time.Minute
	readChunkBytes      = 1 << 20
)

// Settings are the administrator's rules for downloads.
type Settings struct {
	AllowedNetworks []netip.Prefix // private, reserved or own addresses that downloads may use
	MaxBytes        int64          // limit of one download in bytes; 0: DefaultMaxBytes

	Roots *x509.CertPool // trusted CAs of servers; nil: the system's
}

// Client downloads files. It uses no proxy, cookie or password of the host. It is safe for concurrent use.
type Client struct {
	settings     Settings
	stallTimeout time.Duration
	dialer       *egress.Dialer
}

// New returns a client.
func New(s Settings) *Client {
	if s.MaxBytes <= 0 {
		s.MaxBytes = DefaultMaxBytes
	}
	const advice = "The agent's setting fetchFrom on the host must allow downloads from that address."
	return &Client{settings: s, stallTimeout: defaultStallTimeout, dialer: egress.NewDialer(s.AllowedNetworks, advice)}
}

// Request is one download.
type Request struct {
	URL       string
	Checksum  string // "sha256:…", "sha512:…", or empty
	FreeBytes int64  // free space for the file in bytes

	// URL of a checksum file such as SHA256SUMS, with an entry for the last element of URL's path; Checksum is then
	// empty
	ChecksumURL string
}

// Get downloads a file into w. report periodically receives the bytes done, the total (0: unknown) and the rate in
// bytes per second. After an error the caller must remove what Get has written.
func (c *Client) Get(ctx context.Context, o Request, w io.Writer, report func(done, total, rate int64)) error {
	algorithm, digest, ok := download.ParseChecksum(o.Checksum)
	if !ok || digest != "" && o.ChecksumURL != "" {
		return fleet.Errorf(fleet.Invalid, "%q is not a checksum: give the hexadecimal digits of a SHA-256 or SHA-512.", o.Checksum)
	}
	at, err := download.ParseURL(o.URL, digest != "" || o.ChecksumURL != "")
	if err != nil {
		return err
	}
	if o.ChecksumURL != "" {
		if algorithm, digest, err = c.fetchChecksum(ctx, o.ChecksumURL, path.Base(at.Path)); err != nil {
			return err
		}
	}
	d := checkedRequest{at: at, algorithm: algorithm, digest: digest, freeBytes: o.FreeBytes, to: w, report: report}
	return c.withStallTimeout(ctx, at, func(ctx context.Context, watch *time.Timer) error {
		return c.download(ctx, d, watch)
	})
}

// withStallTimeout calls do, and cancels it if the server sends nothing for stallTimeout. It returns the error of do as
// a sentence.
func (c *Client) withStallTimeout(ctx context.Context, at *url.URL, do func(context.Context, *time.Timer) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := fleet.Errorf(fleet.Conflict, "The server %s sent nothing for %s, so the download was stopped. Try again later.", at.Host, c.stallTimeout)
	watch := time.AfterFunc(c.stallTimeout, func() { cancel(stalled) })
	defer watch.Stop()
	err := do(ctx, watch)
	if errors.Is(context.Cause(ctx), stalled) {
		return stalled
	}
	return userError(ctx, at, err)
}

// fetchChecksum downloads a small checksum file within stallTimeout, and returns the digest for the name.
func (c *Client) fetchChecksum(ctx context.Context, address, name string) (algorithm, digest string, err error) {
	at, err := download.ParseChecksumFileURL(address)
	if err != nil {
		return "", "", err
	}
	var text []byte
	err = c.withStallTimeout(ctx, at, func(ctx context.Context, _ *time.Timer) error {
		response, err := c.openURL(ctx, at, false)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if text, err = io.ReadAll(io.LimitReader(response.Body, maxChecksumFile+1)); err != nil {
			return truncatedError{err, int64(len(text)), response.ContentLength}
		}
		if len(text) > maxChecksumFile {
			return fleet.Errorf(fleet.Conflict, "The file at %s is larger than %s, so it is not a checksum file. Check the address of the checksum file.", at.Host, fleet.FormatBytes(maxChecksumFile))
		}
		return nil
	})
	if err != nil {
		return "", "", err
	}
	sum, err := FindChecksum(string(text), name)
	algorithm, digest, _ = strings.Cut(sum, ":")
	return algorithm, digest, err
}

// checkedRequest is a checked Request, with the writer and the progress function of Get.
type checkedRequest struct {
	at                *url.URL
	algorithm, digest string // expected checksum; empty: none
	freeBytes         int64
	to                io.Writer
	report            func(done, total, rate int64)
}

// download downloads the file. It resets stallTimer whenever the server sends something.
func (c *Client) download(ctx context.Context, d checkedRequest, stallTimer *time.Timer) error {
	response, err := c.openURL(ctx, d.at, d.digest != "")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	stallTimer.Reset(c.stallTimeout)
	total := response.ContentLength
	switch {
	case total == 0:
		return fleet.Errorf(fleet.Conflict, "The server %s sent nothing: the file is empty.", d.at.Host)
	case total < 0 && len(response.TransferEncoding) == 0 && d.digest == "":
		return fleet.Errorf(fleet.Conflict, "The server %s does not report the size of the file, so a truncated download could not be detected. Give the file's checksum.", d.at.Host)
	}
	most := min(c.settings.MaxBytes, d.freeBytes)
	if total > most {
		return c.tooLargeError(fleet.FormatBytes(total), most)
	}
	sum := newHash(d.algorithm)
	meter := newMeter(max(total, 0), d.report)
	part := make([]byte, readChunkBytes)
	for {
		n, err := response.Body.Read(part)
		if n > 0 {
			stallTimer.Stop() // the limit must not count the time of slow storage
			if meter.done += int64(n); meter.done > most {
				return c.tooLargeError("more than "+fleet.FormatBytes(most), most)
			}
			if _, err := d.to.Write(part[:n]); err != nil {
				return fmt.Errorf("write the download: %w", err)
			}
			if sum != nil {
				sum.Write(part[:n])
			}
			stallTimer.Reset(c.stallTimeout)
			meter.update()
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return truncatedError{err, meter.done, total}
		}
	}
	if got := formatDigest(sum); got != d.digest {
		return fleet.Errorf(fleet.Conflict, "The download's %s is %s, but %s was expected. The file is not the expected file and was deleted.", d.algorithm, got, d.digest)
	}
	return nil
}

func (c *Client) tooLargeError(has string, most int64) error {
	if most < c.settings.MaxBytes {
		return NoSpaceError("download", has, most)
	}
	return fleet.Errorf(fleet.Conflict, "The download's size is %s, but this host accepts at most %s. The limit is the agent's setting fetchMost.", has, fleet.FormatBytes(most))
}

// NoSpaceError returns the error for a file that is larger than the pool's free space. kind and size describe the file.
func NoSpaceError(kind, size string, room int64) error {
	return fleet.Errorf(fleet.Conflict, "The %s has a size of %s, but the pool has room for %s on this host. Free space in the pool, or choose another pool.", kind, size, fleet.FormatBytes(max(room, 0)))
}

// NewHash returns a new hash of that algorithm; nil: the algorithm is unknown.
func NewHash(algorithm string) hash.Hash { return newHash(algorithm) }

func newHash(algorithm string) hash.Hash {
	switch algorithm {
	case "sha256":
		return sha256.New()
	case "sha512":
		return sha512.New()
	}
	return nil
}

func formatDigest(sum hash.Hash) string {
	if sum == nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// openURL follows redirects and returns the response with the file.
func (c *Client) openURL(ctx context.Context, at *url.URL, checked bool) (*http.Response, error) {
	transport := &http.Transport{
		Proxy: nil, DialContext: c.dialer.DialContext, TLSHandshakeTimeout: egress.DialTimeout, MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression: true, DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: c.settings.Roots, MinVersion: tls.VersionTLS12},
	}
	for range maxRedirects + 1 {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
		if err != nil {
			return nil, err
		}
		request.Header.Set("User-Agent", "quantix")
		request.Header.Set("Accept-Encoding", "identity")
		response, err := transport.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		encoding := response.Header.Get("Content-Encoding")
		switch {
		case slices.Contains([]int{301, 302, 303, 307, 308}, response.StatusCode):
			response.Body.Close()
			if at, err = redirectTarget(at, response.Header.Get("Location"), checked); err != nil {
				return nil, err
			}
			continue
		case response.StatusCode != http.StatusOK:
			err = fleet.Errorf(fleet.Conflict, "The server %s answered %q instead of sending the file. Check the address.", at.Host, response.Status)
		case encoding != "" && encoding != "identity":
			err = fleet.Errorf(fleet.Conflict, "The server %s sends the file with the encoding %q, which was not requested. Choose another address.", at.Host, encoding)
		default:
			return response, nil
		}
		response.Body.Close()
		return nil, err
	}
	return nil, fleet.Errorf(fleet.Conflict, "The server redirects more than %d times, so the download was stopped.", maxRedirects)
}

// redirectTarget returns the target of a redirect. It returns an error if the redirect must not be followed, such as
// one from https to http.
func redirectTarget(from *url.URL, location string, checked bool) (*url.URL, error) {
	to, err := from.Parse(location)
	if err == nil && location != "" {
		to.Fragment, to.RawFragment = "", ""
		to, err = download.ParseURL(to.String(), checked)
	}
	switch {
	case err != nil || location == "":
		return nil, fleet.Errorf(fleet.Conflict, "The server %s redirects to an address that is not allowed. Give the address of the file itself.", from.Host)
	case from.Scheme == "https" && to.Scheme != "https":
		return nil, fleet.Errorf(fleet.Conflict, "The server %s redirects from https to http, which does not protect the file against changes in transit. Give another address.", from.Host)
	}
	return to, nil
}

// truncatedError is the error of a download that ended early. done and total are in bytes; total 0: unknown.
type truncatedError struct {
	error
	done, total int64
}

func (c truncatedError) Unwrap() error { return c.error }

// userError returns the error as a sentence for users. The agent does not retry a failed download, because the user
// may know another URL.
func userError(ctx context.Context, at *url.URL, err error) error {
	cut, isCut := errors.AsType[truncatedError](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	_, isDial := errors.AsType[*net.OpError](err)
	_, isCert := errors.AsType[*tls.CertificateVerificationError](err)
	switch refusal, isRefusal := errors.AsType[*fleet.Error](err); {
	case err == nil || ctx.Err() != nil:
		return err
	case isRefusal:
		return refusal
	case isCut && cut.total > 0:
		return fleet.Errorf(fleet.Conflict, "The download was cut off after %s of %s: %s. The partial file was deleted. Try again.", fleet.FormatBytes(cut.done), fleet.FormatBytes(cut.total), cut.error)
	case isCut:
		return fleet.Errorf(fleet.Conflict, "The download was cut off after %s: %s. The partial file was deleted. Try again.", fleet.FormatBytes(cut.done), cut.error)
	case isDNS:
		return fleet.Errorf(fleet.Conflict, "The host cannot find %s: %s. Check the address, and the host's network connection and DNS.", at.Host, dns)
	case isCert:
		return fleet.Errorf(fleet.Conflict, "The certificate of the server %s cannot be verified: %s.", at.Host, err)
	case isDial:
		return fleet.Errorf(fleet.Conflict, "The host cannot reach %s: %s. Check the address, and the host's network connection to this address.", at.Host, err)
	}
	return fmt.Errorf("download from %s: %w", at.Host, err)
}
