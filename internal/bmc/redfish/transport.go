package redfish

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// Limits of one connection.
const (
	maxRequests    = 40
	maxBodyBytes   = 1 << 20 // of one answer
	maxHeaderBytes = 64 << 10
)

// errTooLarge is the error of reading more than maxBodyBytes of an answer.
var errTooLarge = &Error{Text: fmt.Sprintf("The BMC answered with more than %d KiB.", maxBodyBytes>>10)}

// transport sends requests only to the configured address, although links in a BMC's answers can name others. It bounds the
// number of requests and the size of each answer.
type transport struct {
	base     http.RoundTripper
	host     string // host and port as in the configured address
	requests atomic.Int32
	sent     atomic.Bool // the header of a request that changes something was sent
}

func (g *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" || r.URL.Host != g.host || r.URL.User != nil {
		return nil, errorf("The BMC %s refers to another machine. Nothing was sent to it.", g.host)
	}
	if g.requests.Add(1) > maxRequests {
		return nil, errorf("The BMC %s needs more than %d requests.", g.host, maxRequests)
	}
	if r.Method != http.MethodGet {
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{WroteHeaders: func() { g.sent.Store(true) }}))
	}
	answer, err := g.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = &boundedBody{of: answer.Body, left: maxBodyBytes}
	return answer, nil
}

// boundedBody is a body whose reads fail after left bytes.
type boundedBody struct {
	of   io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		var one [1]byte
		n, err := b.of.Read(one[:])
		if n == 0 && err != nil {
			return 0, err
		}
		return 0, errTooLarge
	}
	n, err := b.of.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (b *boundedBody) Close() error { return b.of.Close() }

// refuseRedirect is the policy of a client that follows no redirect.
func refuseRedirect(*http.Request, []*http.Request) error { return errRedirect }

var errRedirect = &Error{Text: "The BMC answered with a redirect, which is not followed. Enter the address to which it leads."}

// panicError returns what a panic while reading a BMC's answer means.
func panicError(v any) error { return errors.New("the answer cannot be read: " + fmt.Sprint(v)) }
