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

// nic finds the name of a guest's card: in rules, and in the chains of libvirt's network filters, "FI-vnet3" of iptables, "libvirt-I-vnet3" and
// "I-vnet3-arp-ip" of ebtables.
var nic = regexp.MustCompile(`^(?:(?:libvirt-)?[A-Z]{1,2}-)?(vnet[0-9]+)(?:-.*)?$`)

// isOrphan reports whether a card's name, or a chain, is of a card that is not there.
func isOrphan(word string) bool {
	m := nic.FindStringSubmatch(word)
	return m != nil && !exists("/sys/class/net/"+m[1])
}

// orphaned reports whether a rule or a chain was libvirt's for a card that is not there.
func (r rule) orphaned() bool {
	chain, isRule := r.chain()
	return isOrphan(chain) || isRule && (isOrphan(r.target()) || isLibvirts(chain) && slices.ContainsFunc(strings.Fields(r.line), isOrphan))
}

// sweepFilters removes what network filters left of cards whose guests ended with their libvirtd. Names of cards are given again: the next guest of the
// machine that gets one would lose its packets there. A libvirtd that lets go of a card's rules itself may be faster: what is still there counts.
func sweepFilters(log *slog.Logger) (err error) {
	for range 5 {
		var packets, frames []rule
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
		err = errors.Join(remove(packets), removeFrames(frames))
	}
	return err
}

// removeFrames is remove for rules of ebtables, which has no safe way to take many at once.
func removeFrames(rules []rule) error {
	var errs []error
	for _, chains := range []bool{false, true} {
		for _, r := range rules {
			chain, isRule := r.chain()
			if isRule == chains {
				continue
			}
			do := []string{"-t", r.table, "-X", chain}
			if isRule {
				do = append([]string{"-t", r.table, "-D"}, strings.Fields(r.line)[1:]...)
			}
			errs = append(errs, run("ebtables", do...))
		}
	}
	return errors.Join(errs...)
}

// bridgeFirewall is firewall for the rules of bridges, which libvirt makes with ebtables.
func bridgeFirewall(log *slog.Logger) (rules []rule) {
	cmd := exec.Command(program("ebtables-save"))
	cmd.Env = environment(nil)
	out, err := cmd.Output()
	if err != nil {
		log.Debug("The machine's rules for bridges cannot be read.", "error", fmt.Errorf("ebtables-save: %w", err))
		return nil
	}
	return linesOf("ebtables", string(out))
}
