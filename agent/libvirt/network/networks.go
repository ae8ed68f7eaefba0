// Package network manages libvirt's networks (Networks) and the network filters of security groups and NICs (Filters).
// It also reports the host's bridges, and the NIC limits that the kernel does not support.
package network

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/internal/drift"
	"quantix/internal/fleet"
)

// Networks manages the networks of libvirt, and reports these networks and the bridges of the host.
type Networks struct {
	daemon *conn.Daemon
	guests GuestReader
	watch  networkWatch
}

// NewNetworks returns the networks of the daemon. guests reads the guests of the host.
func NewNetworks(daemon *conn.Daemon, guests GuestReader) *Networks {
	return &Networks{daemon: daemon, guests: guests}
}

// ApplyNetwork implements hypervisor.Networks.
func (ns *Networks) ApplyNetwork(ctx context.Context, n fleet.Network) error {
	return ns.withNetworkLock(ctx, "apply", n, func(ctx context.Context, c *conn.Conn) error {
		if n.Spec.Adopted {
			return ns.applyAdoptedNetwork(ctx, c, n)
		}
		_, err := ns.applyNetwork(ctx, c, n, false)
		return err
	})
}

// ReapplyNetwork implements hypervisor.Networks.
func (ns *Networks) ReapplyNetwork(ctx context.Context, n fleet.Network) error {
	return ns.withNetworkLock(ctx, "reapply", n, func(ctx context.Context, c *conn.Conn) error {
		if n.Spec.Adopted {
			return fleet.RefusalError(fleet.AdoptedReapplyRefusal)
		}
		ref, err := ns.applyNetwork(ctx, c, n, true)
		if err != nil || !n.Spec.Mode.Info().HostAddresses {
			return err
		}
		return ns.restartEditedNetwork(ctx, c, ref, n)
	})
}

// applyNetwork defines and starts the network. With overwrite, it overwrites an edited definition.
func (ns *Networks) applyNetwork(ctx context.Context, c *conn.Conn, n fleet.Network, overwrite bool) (golibvirt.Network, error) {
	ref, err := ns.ensureNetworkDefined(ctx, c, n, overwrite)
	if err != nil {
		return ref, err
	}
	return ref, ns.startNetwork(ctx, c, ref, n)
}

// startNetwork starts the defined network, or updates the running network.
func (ns *Networks) startNetwork(ctx context.Context, c *conn.Conn, ref golibvirt.Network, n fleet.Network) error {
	state, err := ns.readNetwork(ctx, c, ref)
	if err != nil {
		return err
	}
	if state.status.Active && state.status.Error == hypervisor.NoDnsmasqText {
		if err := ns.stopNetworkWithoutDnsmasq(ctx, c, n, state); err != nil {
			return err
		}
		state.status.Active = false
	}
	// Set autostart before the start, so that the next boot of the host retries a start that fails now.
	err = c.Do(ctx, func(l *golibvirt.Libvirt) error {
		if !state.status.Autostart {
			if err := l.NetworkSetAutostart(ref, 1); err != nil {
				return err
			}
		}
		if state.status.Active {
			return nil
		}
		return l.NetworkCreate(ref)
	})
	if err != nil || !state.status.Active {
		return err
	}
	return ns.updateNetwork(ctx, c, ref, n)
}

// restartEditedNetwork restarts a network that runs with an edited definition. It refuses while guests use the network,
// because the restart would cut them off.
func (ns *Networks) restartEditedNetwork(ctx context.Context, c *conn.Conn, ref golibvirt.Network, n fleet.Network) error {
	live, _, err := readNetworkXML(ctx, c, ref, 0)
	if err != nil {
		return err
	}
	parts := slices.DeleteFunc(editedParts(networkDefinition(n), live), func(part string) bool { return part == drift.PartOther })
	if len(parts) == 0 {
		return nil
	}
	user, err := ns.domainOnNetwork(ctx, c, n.Name, bridgeName(live))
	if err != nil {
		return err
	}
	if user != "" {
		return hypervisor.RefuseNetworkRestart(parts, user)
	}
	return c.Do(ctx, func(l *golibvirt.Libvirt) error {
		if err := l.NetworkDestroy(ref); err != nil {
			return err
		}
		return l.NetworkCreate(ref)
	})
}

// ensureNetworkDefined returns libvirt's network. It defines a missing network. It redefines a network of an older generation
// that nobody edited since Quantix wrote it, and with overwrite an edited network, too.
func (ns *Networks) ensureNetworkDefined(ctx context.Context, c *conn.Conn, n fleet.Network, overwrite bool) (golibvirt.Network, error) {
	ref, err := findNetwork(ctx, c, n.ID)
	if conn.IsLibvirtCode(err, golibvirt.ErrNoNetwork) {
		_, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (golibvirt.Network, error) { return l.NetworkLookupByName(n.Name) })
		switch {
		case conn.IsLibvirtCode(err, golibvirt.ErrNoNetwork):
			return defineNetwork(ctx, c, n)
		case err != nil:
			return ref, err
		}
		return ref, hypervisor.RefuseTakenNetworkName(n.Name)
	}
	if err != nil {
		return ref, err
	}
	if ref.Name != n.Name {
		return ref, fleet.Errorf(fleet.Conflict, "The host already has this network under the name %q. Remove that network with virsh, then try again.", ref.Name)
	}
	persistent, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (int32, error) { return l.NetworkIsPersistent(ref) })
	if err != nil {
		return ref, err
	}
	if persistent == 0 {
		return defineNetwork(ctx, c, n)
	}
	inactive, groups, err := readNetworkXML(ctx, c, ref, inactiveNetworkXML)
	if err != nil {
		return ref, err
	}
	parts := differingParts(n, inactive, groups)
	unedited := readNetworkMetadata(inactive).matchesDefinition(inactive) && readNetworkMetadata(inactive).Groups == groups.digest()
	switch {
	case len(parts) == 0 && unedited:
		return ref, nil
	case len(parts) == 0, unedited, overwrite: // without a difference, a user accepted the edits into the spec
		return defineNetwork(ctx, c, n)
	}
	return ref, fleet.RefusalError(hypervisor.NetworkEditedText(parts))
}

// stopNetworkWithoutDnsmasq stops a network whose dnsmasq has exited, so that the next start runs dnsmasq again. It
// refuses while guests use the network, because the stop would cut them off.
func (ns *Networks) stopNetworkWithoutDnsmasq(ctx context.Context, c *conn.Conn, n fleet.Network, state networkState) error {
	user, err := ns.domainOnNetwork(ctx, c, n.Name, state.status.Bridge)
	if err != nil {
		return err
	}
	if user != "" {
		return fleet.Errorf(fleet.Conflict, "%s Restart libvirtd (virtnetworkd) on the host, which starts dnsmasq again; a restart of the network would cut off %s.", hypervisor.NoDnsmasqText, user)
	}
	return c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.NetworkDestroy(state.ref) })
}

// ReleaseNetwork implements hypervisor.Networks.
func (ns *Networks) ReleaseNetwork(ctx context.Context, n fleet.Network) error {
	return ns.withNetworkLock(ctx, "release", n, func(ctx context.Context, c *conn.Conn) error {
		if n.Spec.Adopted {
			return nil // the network stays as the host has it
		}
		ref, err := findNetwork(ctx, c, n.ID)
		if conn.IsLibvirtCode(err, golibvirt.ErrNoNetwork) {
			return nil // a network with this name but another UUID existed before Quantix
		}
		if err != nil {
			return err
		}
		state, err := ns.readNetwork(ctx, c, ref)
		if err != nil {
			return err
		}
		bridge := state.status.Bridge
		if t := n.Spec.Mode.Info(); !t.CreatesDevices && !t.HostAddresses {
			bridge = "" // the bridge remains after the release, so other users of the bridge do not matter
		}
		user, err := ns.domainOnNetwork(ctx, c, ref.Name, bridge)
		if err != nil {
			return err
		}
		if user != "" {
			return hypervisor.RefuseUsedNetwork(ref.Name, user)
		}
		return c.Do(ctx, func(l *golibvirt.Libvirt) error {
			if state.status.Active {
				if err := l.NetworkDestroy(ref); err != nil {
					return err
				}
			}
			if state.persistent == nil {
				return nil // libvirt deletes a transient network when it stops
			}
			return l.NetworkUndefine(ref)
		})
	})
}

// noFreeDevicePattern matches libvirt's error for a network whose devices are all in use.
var noFreeDevicePattern = regexp.MustCompile(`network '([^']+)' requires exclusive access to interfaces, but none are available`)

// TranslateNoFreeDevice translates libvirt's error for a network without a free device into a sentence for people.
func TranslateNoFreeDevice(err error) error {
	if err != nil {
		if m := noFreeDevicePattern.FindStringSubmatch(err.Error()); m != nil {
			return hypervisor.RefuseNICWithoutDevice(m[1])
		}
	}
	return err
}

// withNetworkLock runs f while it holds the network's lock, so that only one operation at a time runs for a network.
func (ns *Networks) withNetworkLock(ctx context.Context, verb string, n fleet.Network, f func(context.Context, *conn.Conn) error) error {
	act := verb + " network " + n.Name
	unlock, err := ns.watch.locks.Lock(ctx, n.Name)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	defer ns.watch.Expire()
	return conn.WrapAction(act, ns.daemon.WithConn(ctx, f))
}

// domainOnNetwork returns the name of a running or stopped domain with a NIC on the network or on the network's bridge.
// It returns an empty name if there is none.
func (ns *Networks) domainOnNetwork(ctx context.Context, c *conn.Conn, network, bridge string) (string, error) {
	all, err := ns.guests(ctx, c)
	if err != nil {
		return "", err
	}
	for _, s := range all {
		on := func(k domxml.NICHardware) bool {
			return k.Source == "network "+network || strings.HasPrefix(k.Source, "network "+network+", ") || bridge != "" && k.Source == "bridge "+bridge
		}
		if s.hasNIC(on) {
			return s.Ref.Name, nil
		}
	}
	return "", nil
}

// findNetwork looks up a Quantix network in libvirt by UUID.
func findNetwork(ctx context.Context, c *conn.Conn, id fleet.NetworkID) (golibvirt.Network, error) {
	uuid, err := conn.ParseUUID(fleet.VMID(id))
	if err != nil {
		return golibvirt.Network{}, err
	}
	return conn.Call(ctx, c, func(l *golibvirt.Libvirt) (golibvirt.Network, error) { return l.NetworkLookupByUUID(uuid) })
}

// defineNetwork defines or redefines the network in libvirt.
func defineNetwork(ctx context.Context, c *conn.Conn, n fleet.Network) (golibvirt.Network, error) {
	text, err := definitionWithMetadata(n)
	if err != nil {
		return golibvirt.Network{}, fmt.Errorf("write the network's definition: %w", err)
	}
	return conn.Call(ctx, c, func(l *golibvirt.Libvirt) (golibvirt.Network, error) { return l.NetworkDefineXML(text) })
}
