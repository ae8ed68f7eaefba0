package guest

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"time"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/internal/fleet"
)

// dialTarget is an address of a guest's NIC. An address known only from ARP is dialed through the device of its ARP
// entry. So a guest that claims another machine's address cannot direct the check to that machine.
type dialTarget struct {
	ip     net.IP
	device string // empty for an address from the host's own DHCP lease, which is on the NIC's network
}

// neighbour is an entry of the host's ARP table.
type neighbour struct{ ip, mac, device string }

// dialTargets returns the guest's addresses that a health check may dial. An address from the guest agent alone is not
// trusted.
func dialTargets(seen NICAddresses, arp []neighbour) []dialTarget {
	var leased, others []dialTarget
	for mac, all := range seen {
		for _, a := range all {
			ip := net.ParseIP(a.IP)
			i := slices.IndexFunc(arp, func(n neighbour) bool { return n.ip == a.IP && n.mac == mac })
			switch {
			case ip == nil:
			case slices.Contains(a.By, fleet.FromLease):
				leased = append(leased, dialTarget{ip: ip})
			case slices.Contains(a.By, fleet.FromARP) && i >= 0:
				others = append(others, dialTarget{ip, arp[i].device})
			}
		}
	}
	const most = 4
	all := slices.Concat(leased, others)
	return all[:min(len(all), most)]
}

// dialFirstReachable connects to the first address that accepts. It shares the remaining time among the addresses.
func dialFirstReachable(ctx context.Context, all []dialTarget, port int) (net.Conn, error) {
	if len(all) == 0 {
		return nil, hypervisor.CannotCheckGuestError("The host knows no address of the guest's NICs, neither from a DHCP lease nor from ARP.")
	}
	var first error
	for i, to := range all {
		within, cancel := ctx, context.CancelFunc(func() {})
		if end, ok := ctx.Deadline(); ok && i < len(all)-1 {
			within, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(len(all)-i))
		}
		conn, err := dialerOnDevice(to.device).DialContext(within, "tcp", net.JoinHostPort(to.ip.String(), strconv.Itoa(port)))
		cancel()
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// CheckPort connects to a port of the guest, or sends an HTTP request, at the addresses that the host knows.
func (as *Agents) CheckPort(ctx context.Context, id fleet.VMID, check fleet.HealthCheck) (hypervisor.HealthCheckResult, error) {
	reach := dialTargets(as.LastAddresses(id), neighbours())
	return hypervisor.CheckPort(ctx, check, func(ctx context.Context, port int) (net.Conn, error) { return dialFirstReachable(ctx, reach, port) })
}

// CheckInGuest runs the program of a health check in the running guest, or pings the guest agent.
func (as *Agents) CheckInGuest(ctx context.Context, c *conn.Conn, s Domain, check fleet.HealthCheck) (hypervisor.HealthCheckResult, error) {
	if s.Live.FieldValues.Devices.GuestAgent == "none" {
		return hypervisor.HealthCheckResult{}, hypervisor.CannotCheckGuestError("The running guest has no guest agent channel.")
	}
	if !s.AgentConnected {
		return hypervisor.HealthCheckResult{}, errNoAnswer
	}
	if check.Kind == fleet.HealthExec {
		return as.programs.runCheck(ctx, newAgentCaller(ctx, c, s), s, check)
	}
	limit := time.Duration(check.Timeout) * time.Second
	if _, err := callAgent[struct{}](newAgentCaller(ctx, c, s), limit, "guest-ping", nil); errors.Is(err, errNoAnswer) {
		return hypervisor.HealthCheckResult{}, errNoAnswer
	} else if err != nil {
		return hypervisor.HealthCheckResult{}, err
	}
	return hypervisor.HealthCheckResult{Answer: "The guest agent answers."}, nil
}
