package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"quantix/internal/fleet"
)

// maxHTTPResponseBytes limits how many bytes of a web server's response are read. The bytes are discarded.
const maxHTTPResponseBytes = 64 << 10

// CheckPort runs a TCP or HTTP check on a guest that dial connects to. check has its defaults filled in. CheckPort
// follows no redirect and ignores the host's proxy settings.
func CheckPort(ctx context.Context, check fleet.HealthCheck, dial func(ctx context.Context, port int) (net.Conn, error)) (HealthCheckResult, error) {
	if check.Kind == fleet.HealthTCP {
		conn, err := dial(ctx, check.Port)
		if err != nil {
			return HealthCheckResult{}, connectionFailure(err)
		}
		return HealthCheckResult{Answer: "The port accepts connections."}, conn.Close()
	}
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, check.Port) },
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 16 << 10,
	}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	// The host name is only a placeholder, because dial chooses the address.
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://guest:"+strconv.Itoa(check.Port)+check.Path, http.NoBody)
	if err != nil {
		return HealthCheckResult{}, fmt.Errorf("the path of the check is invalid: %w", err)
	}
	request.Header.Set("User-Agent", "quantix-health")
	answer, err := client.Do(request)
	if err != nil {
		return HealthCheckResult{}, connectionFailure(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, maxHTTPResponseBytes)); err != nil {
		return HealthCheckResult{}, errors.New("the response is incomplete")
	}
	said := fmt.Sprintf("The response has the status %d.", answer.StatusCode)
	switch {
	case check.Status == answer.StatusCode, check.Status == 0 && answer.StatusCode >= 200 && answer.StatusCode < 300:
		return HealthCheckResult{Answer: said}, nil
	case check.Status == 0:
		return HealthCheckResult{}, fmt.Errorf("the response has the status %d instead of 200 to 299", answer.StatusCode)
	}
	return HealthCheckResult{}, fmt.Errorf("the response has the status %d instead of %d", answer.StatusCode, check.Status)
}

// connectionFailure returns why there was no connection or no response. It omits addresses, which are of no use to
// readers.
func connectionFailure(err error) error {
	var unsure CannotCheckGuestError
	var op *net.OpError
	switch {
	case errors.As(err, &unsure):
		return unsure
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("the guest did not answer in time")
	case errors.As(err, &op):
		return errors.New(op.Err.Error())
	}
	return errors.New("the guest sent no valid HTTP response")
}

// HealthCheckResult is a guest's answer to one health check. Mark is compared with the value of the previous check: a
// checksum of the picture for a screen check, the count of expiries for a watchdog check.
type HealthCheckResult struct {
	Answer     string
	ChangeMark string
}

// CannotCheckGuestError is the error of a check that cannot run now, so the guest neither passes nor fails the check.
type CannotCheckGuestError string

func (u CannotCheckGuestError) Error() string { return string(u) }
