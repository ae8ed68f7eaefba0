package network

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/ipam"
	"quantix/internal/policy"
)

// ReserveAddress reserves an IPv4 address of a defined network for a NIC's MAC address. It replaces an earlier
// reservation for the MAC address. If the input has no address, it chooses the NIC's current address, or else the next
// free one. Each host of the network applies the reservation at once, also for running guests.
func (n *Networks) ReserveAddress(ctx context.Context, a fleet.Actor, id fleet.NetworkID, in fleet.StaticLease) (fleet.StaticLease, []fleet.TaskID, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.StaticLease{}, nil, err
	}
	in = fleet.StaticLease{MAC: strings.TrimSpace(in.MAC), IP: strings.TrimSpace(in.IP), Name: strings.TrimSpace(in.Name)}
	mac, err := net.ParseMAC(in.MAC)
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 {
		var checks fleet.Checks
		checks.Add("mac", "Give the unicast MAC address of the NIC, such as 52:54:00:12:34:56.")
		return fleet.StaticLease{}, nil, checks.Err()
	}
	in.MAC = mac.String()
	request := in
	var book func(fleet.NetworkSpec) ipam.Usage
	if in.IP == "" {
		if err := store.CheckID(id, "network"); err != nil {
			return fleet.StaticLease{}, nil, err
		}
		if book, err = n.queries.NetworkAddressesBySpec(ctx, a, id, ""); err != nil {
			return fleet.StaticLease{}, nil, err
		}
	}
	tasks, err := assign.ChangeNetwork(ctx, n.store, a, id, "reserve", func(_ *db.Queries, s *fleet.NetworkSpec) (string, error) {
		if s.IPv4 == nil || s.IPv4.DHCP == nil {
			return "", noDHCPError()
		}
		leases := &s.IPv4.DHCP.Leases
		// Choose the address while the network is locked, so that concurrent requests get different addresses.
		if in = request; book != nil {
			in.IP = addressToReserve(book(*s), in.MAC)
		}
		if slices.Contains(*leases, in) {
			return "", nil
		}
		*leases = append(slices.DeleteFunc(*leases, func(l fleet.StaticLease) bool { return l.MAC == in.MAC }), in)
		return strings.TrimSpace(in.IP + " for " + in.MAC + " " + in.Name), checkReservation(*s)
	})
	if err != nil {
		return fleet.StaticLease{}, nil, err
	}
	return in, tasks, nil
}

func noDHCPError() error {
	return fleet.Errorf(fleet.Conflict, "DHCP for IPv4 is off in this network, so no address can be reserved.")
}

// checkReservation checks the complete network spec, and reports all errors at the field "ip" of the new reservation.
func checkReservation(s fleet.NetworkSpec) error {
	var all, checks fleet.Checks
	s.Check(&all, "spec")
	if e, ok := errors.AsType[*fleet.Error](all.Err()); ok {
		for _, f := range e.Fields {
			checks.Add("ip", "%s", f.Message)
		}
	}
	return checks.Err()
}

// addressToReserve returns the address already reserved for the MAC address, or else its current address if no other NIC
// has that too, or else the next free address. Empty: none is free.
func addressToReserve(addresses ipam.Usage, mac string) string {
	if i := slices.IndexFunc(addresses.Reservations, func(r ipam.Reservation) bool { return r.MAC == mac }); i >= 0 {
		return addresses.Reservations[i].IP
	}
	for _, u := range addresses.InUse {
		taken := func(o ipam.Address) bool { return o.IP == u.IP && o.MAC != mac }
		if u.MAC == mac && !u.Reserved && !strings.Contains(u.IP, ":") && !slices.ContainsFunc(addresses.InUse, taken) {
			return u.IP
		}
	}
	return addresses.Next
}

// FreeAddress ends the reservation for a MAC address. A guest keeps the address until its lease ends.
func (n *Networks) FreeAddress(ctx context.Context, a fleet.Actor, id fleet.NetworkID, mac string) ([]fleet.TaskID, error) {
	return assign.ChangeNetwork(ctx, n.store, a, id, "unreserve", func(_ *db.Queries, s *fleet.NetworkSpec) (string, error) {
		if s.IPv4 == nil || s.IPv4.DHCP == nil {
			return "", noDHCPError()
		}
		leases := &s.IPv4.DHCP.Leases
		i := slices.IndexFunc(*leases, func(l fleet.StaticLease) bool { return strings.EqualFold(l.MAC, mac) })
		if i < 0 {
			return "", fleet.Errorf(fleet.NotFound, "No address is reserved for this NIC.")
		}
		detail := (*leases)[i].IP + " for " + (*leases)[i].MAC
		*leases = slices.Delete(*leases, i, i+1)
		if len(*leases) == 0 && len(s.IPv4.DHCP.Ranges) == 0 {
			return "", fleet.Errorf(fleet.Conflict, "This is the last address that DHCP assigns in this network. Reserve another address first.")
		}
		return detail, nil
	})
}
