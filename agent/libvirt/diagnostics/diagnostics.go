// Package diagnostics reads from libvirt what people need who search for a fault.
package diagnostics

import (
	"context"
	"fmt"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
)

// List implements hypervisor.Telemetry. Each text uses a new connection, because the agent's connection may be lost. No text
// has a definition, because definitions may have secrets.
func List(daemon *conn.Daemon) []hypervisor.Diagnostic {
	read := func(list func(*golibvirt.Libvirt, *strings.Builder) error) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			var out strings.Builder
			err := daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
				return c.Do(ctx, func(l *golibvirt.Libvirt) error { return list(l, &out) })
			})
			return out.String(), err
		}
	}
	return []hypervisor.Diagnostic{
		{Name: "hypervisor", Title: "libvirt and QEMU", Read: read(describeLibvirt)},
		{Name: "domains", Title: "VMs in libvirt", Read: read(listDomains)},
		{Name: "pools", Title: "Storage pools in libvirt", Read: read(listPools)},
		{Name: "networks", Title: "Networks in libvirt", Read: read(listNetworks)},
	}
}

func describeLibvirt(l *golibvirt.Libvirt, out *strings.Builder) error {
	versions, err := conn.Versions(l)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n\n", versions)
	capabilities, err := l.ConnectGetCapabilities()
	out.WriteString(capabilities)
	return err
}

// domainStates and poolStates are the states of domains and pools as virsh shows them.
var (
	domainStates = []string{"no state", "running", "blocked", "paused", "in shutdown", "shut off", "crashed", "suspended"}
	poolStates   = []string{"inactive", "building", "running", "degraded", "inaccessible"}
)

func stateName(names []string, state int) string {
	if state >= 0 && state < len(names) {
		return names[state]
	}
	return fmt.Sprint("state ", state)
}

func listDomains(l *golibvirt.Libvirt, out *strings.Builder) error {
	all, _, err := l.ConnectListAllDomains(1, 0)
	if err != nil {
		return err
	}
	for _, d := range all {
		state, reason, err := l.DomainGetState(d, 0)
		if err != nil {
			fmt.Fprintf(out, "%s  %-40s  (%s)\n", conn.FormatUUID(d.UUID), d.Name, conn.TranslateError(err))
			continue
		}
		fmt.Fprintf(out, "%s  %-40s  %s (reason %d)\n", conn.FormatUUID(d.UUID), d.Name, stateName(domainStates, int(state)), reason)
	}
	return nil
}

func listPools(l *golibvirt.Libvirt, out *strings.Builder) error {
	all, _, err := l.ConnectListAllStoragePools(1, 0)
	if err != nil {
		return err
	}
	for _, p := range all {
		state, capacity, allocation, available, err := l.StoragePoolGetInfo(p)
		if err != nil {
			fmt.Fprintf(out, "%-40s  (%s)\n", p.Name, conn.TranslateError(err))
			continue
		}
		fmt.Fprintf(out, "%-40s  %s, capacity %d, allocation %d, available %d bytes\n", p.Name, stateName(poolStates, int(state)), capacity, allocation, available)
	}
	return nil
}

func listNetworks(l *golibvirt.Libvirt, out *strings.Builder) error {
	all, _, err := l.ConnectListAllNetworks(1, 0)
	if err != nil {
		return err
	}
	for _, n := range all {
		active, err := l.NetworkIsActive(n)
		if err != nil {
			fmt.Fprintf(out, "%-40s  (%s)\n", n.Name, conn.TranslateError(err))
			continue
		}
		autostart, _ := l.NetworkGetAutostart(n)
		fmt.Fprintf(out, "%-40s  active %t, autostart %t\n", n.Name, active == 1, autostart == 1)
	}
	return nil
}
