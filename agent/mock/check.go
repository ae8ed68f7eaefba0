package mock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// CheckGuest implements hypervisor.Guests. All ports of a guest accept connections and serve HTTP, unless the guest is
// sick.
func (h *Host) CheckGuest(ctx context.Context, id fleet.VMID, check fleet.HealthCheck) (hypervisor.HealthCheckResult, error) {
	if err := h.simulateCall(ctx); err != nil {
		return hypervisor.HealthCheckResult{}, err
	}
	g, on, err := h.guestCopy(id)
	switch {
	case err != nil:
		return hypervisor.HealthCheckResult{}, err
	case !on:
		return hypervisor.HealthCheckResult{}, hypervisor.ErrNotRunning
	}
	h.mu.Lock()
	sick := g.failingChecks[check.Kind] || nameContains(g.name, FailHealthChecks)
	h.mu.Unlock()
	switch check.Kind {
	case fleet.HealthExec:
		if says := g.agentStatus(); sick || says.Agent != fleet.AgentAnswers {
			return hypervisor.HealthCheckResult{}, errors.New("the program ended with exit code 1")
		}
		out, err := runProgram(ctx, check.GuestProgram())
		if err == nil {
			err = hypervisor.GuestProgramError(out)
		}
		return hypervisor.HealthCheckResult{Answer: "It ended with exit code 0."}, err
	case fleet.HealthAgent:
		switch says := g.agentStatus(); {
		case says.Agent == fleet.AgentNone:
			return hypervisor.HealthCheckResult{}, hypervisor.CannotCheckGuestError("The running guest has no channel for a guest agent.")
		case sick || says.Agent != fleet.AgentAnswers:
			return hypervisor.HealthCheckResult{}, errors.New("the guest's agent does not answer")
		}
		return hypervisor.HealthCheckResult{Answer: "It answers."}, nil
	case fleet.HealthWatchdog, fleet.HealthScreen:
		h.mu.Lock()
		defer h.mu.Unlock()
		g := h.guests[id]
		if g == nil {
			return hypervisor.HealthCheckResult{}, hypervisor.ErrNotRunning
		}
		if sick == (check.Kind == fleet.HealthWatchdog) {
			g.healthChanges++
		}
		return hypervisor.HealthCheckResult{ChangeMark: strconv.Itoa(g.healthChanges + 1)}, nil
	}
	return hypervisor.CheckPort(ctx, check, func(context.Context, int) (net.Conn, error) {
		switch {
		case len(g.live.spec.NICs) == 0:
			return nil, hypervisor.CannotCheckGuestError("The host knows no address of the VM's NICs from DHCP leases or traffic.")
		case sick && check.Kind == fleet.HealthTCP:
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		near, far := net.Pipe()
		go answerHTTPRequest(far, sick)
		return near, nil
	})
}

// answerHTTPRequest answers one HTTP request.
func answerHTTPRequest(conn net.Conn, sick bool) {
	defer conn.Close()
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	status, body := http.StatusOK, "fine\n"
	if sick {
		status, body = http.StatusServiceUnavailable, "ill\n"
	}
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, http.StatusText(status), len(body), body)
	_, _ = io.Copy(io.Discard, request.Body)
}

// SetHealthCheckFailing makes a guest fail health checks of the kind, or pass them again. A restart or reset does not change that.
func (h *Host) SetHealthCheckFailing(id fleet.VMID, kind fleet.HealthKind, sick bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.guests[id]
	if g == nil {
		return
	}
	if g.failingChecks == nil {
		g.failingChecks = map[fleet.HealthKind]bool{}
	}
	g.failingChecks[kind] = sick
}
