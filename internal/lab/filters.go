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

// nicName matches the name of a guest's NIC, also within the name of a chain of libvirt's network filters: "FI-vnet3"
// in iptables, or "libvirt-I-vnet3" and "I-vnet3-arp-ip" in ebtables.
var nicName = regexp.MustCompile(`^(?:(?:libvirt-)?[A-Z]{1,2}-)?(vnet[0-9]+)(?:-.*)?$`)

// isOrphanedNICName reports whether word is the name of a NIC that does not exist, or of such a NIC's filter chain.
func isOrphanedNICName(word string) bool {
	m := nicName.FindStringSubmatch(word)
	return m != nil && !fileExists("/sys/class/net/"+m[1])
}

// isOrphaned reports whether a rule or chain was created by libvirt for a NIC that no longer exists.
func (r firewallRule) isOrphaned() bool {
	chain, isRule := r.chain()
	return isOrphanedNICName(chain) || isRule && (isOrphanedNICName(r.target()) || isLibvirtChain(chain) && slices.ContainsFunc(strings.Fields(r.line), isOrphanedNICName))
}

// removeOrphanedFilters removes network filter rules of NICs whose guests ended together with their libvirtd. NIC names
// are used again: the old rules would drop the packets of the next guest with the same NIC name. A running libvirtd may
// remove its own rules at the same time, so removeOrphanedFilters checks the result and repeats the removal.
func removeOrphanedFilters(log *slog.Logger) (err error) {
	for range 5 {
		var packets, frames []firewallRule
		for _, r := range append(readFirewall(log), readBridgeFirewall(log)...) {
			switch {
			case !r.isOrphaned():
			case r.tool == "ebtables":
				frames = append(frames, r)
			default:
				packets = append(packets, r)
			}
		}
		if len(packets)+len(frames) == 0 {
			return nil
		}
		err = errors.Join(removeRules(packets), removeEbtablesRules(frames))
	}
	return err
}

// removeEbtablesRules removes rules and chains of ebtables one by one, because ebtables has no safe way to remove
// several at once.
func removeEbtablesRules(rules []firewallRule) error {
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
			errs = append(errs, runCommand("ebtables", args...))
		}
	}
	return errors.Join(errs...)
}

// readBridgeFirewall returns the machine's ebtables rules for bridges, which libvirt creates.
func readBridgeFirewall(log *slog.Logger) (rules []firewallRule) {
	cmd := exec.Command(programPath("ebtables-save"))
	cmd.Env = commandEnvironment(nil)
	out, err := cmd.Output()
	if err != nil {
		log.Debug("The machine's rules for bridges cannot be read.", "error", fmt.Errorf("ebtables-save: %w", err))
		return nil
	}
	return parseFirewall("ebtables", string(out))
}
