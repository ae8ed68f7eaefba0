//go:build linux

package lab

import (
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// nicName matches the name of a guest's NIC: alone in rules, or within the chains of libvirt's network filters, such as
// "FI-vnet3" of iptables, or "libvirt-I-vnet3" and "I-vnet3-arp-ip" of ebtables.
var nicName = regexp.MustCompile(`^(?:(?:libvirt-)?[A-Z]{1,2}-)?(vnet[0-9]+)(?:-.*)?$`)

// isOrphan reports whether word names a missing NIC, or a filter chain of one.
func isOrphan(word string) bool {
	m := nicName.FindStringSubmatch(word)
	return m != nil && !exists("/sys/class/net/"+m[1])
}

// orphaned reports whether a rule or chain belongs to libvirt and to a missing NIC.
func (r firewallRule) orphaned() bool {
	chain, isRule := r.chain()
	return isOrphan(chain) || isRule && (isOrphan(r.target()) || isLibvirtChain(chain) && slices.ContainsFunc(strings.Fields(r.line), isOrphan))
}

// sweepFilters removes network filter rules of NICs whose guests ended together with their libvirtd. NIC names are
// reused: the next guest with such a name would lose its packets in the old rules. A running libvirtd may remove the
// rules of its NICs at the same time, so the result is checked and the removal repeated.
func sweepFilters(log *slog.Logger) (err error) {
	for range 5 {
		var packets, frames []firewallRule
		for _, r := range append(firewall(log), bridgeFirewall(log)...) {
			switch {
			case !r.orphaned():
			case r.tool == "ebtables":
				frames = append(frames, r)
			default:
				packets = append(packets, r)
			}
		}
		if len(packets)+len(frames) == 0 {
			return nil
		}
		err = errors.Join(removeRules(packets), removeFrames(frames))
	}
	return err
}

// removeFrames removes rules and chains of ebtables, one by one: ebtables has no safe way to remove many at once.
func removeFrames(rules []firewallRule) error {
	var errs []error
	for _, chains := range []bool{false, true} {
		for _, r := range rules {
			chain, isRule := r.chain()
			if isRule == chains {
				continue
			}
			args := []string{"-t", r.table, "-X", chain}
			if isRule {
				args = append([]string{"-t", r.table, "-D"}, strings.Fields(r.line)[1:]...)
			}
			errs = append(errs, run("ebtables", args...))
		}
	}
	return errors.Join(errs...)
}

// bridgeFirewall lists the machine's rules for bridges, which libvirt creates with ebtables.
func bridgeFirewall(log *slog.Logger) (rules []firewallRule) {
	cmd := exec.Command(program("ebtables-save"))
	cmd.Env = environment(nil)
	out, err := cmd.Output()
	if err != nil {
		log.Debug("The machine's rules for bridges cannot be read.", "error", fmt.Errorf("ebtables-save: %w", err))
		return nil
	}
	return linesOf("ebtables", string(out))
}
