//go:build linux

package lab

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// firewallRule is one line of iptables-save: a rule ("-A CHAIN …") or a chain (":CHAIN …").
type firewallRule struct {
	tool  string // iptables, ip6tables or ebtables
	table string
	line  string
}

// readFirewall returns the machine's rules and chains. If a firewall cannot be read, it logs the error and treats that
// firewall as empty, because libvirt could not have changed it either.
func readFirewall(log *slog.Logger) (rules []firewallRule) {
	for _, tool := range []string{"iptables", "ip6tables"} {
		cmd := exec.Command(programPath(tool + "-save"))
		cmd.Env = commandEnvironment(nil)
		out, err := cmd.Output()
		if err != nil {
			log.Debug("The machine's firewall cannot be read.", "tool", tool, "error", err)
			continue
		}
		rules = append(rules, parseFirewall(tool, string(out))...)
	}
	return rules
}

// parseFirewall parses the rules and chains in the output of tool's save command, such as iptables-save.
func parseFirewall(tool, output string) (rules []firewallRule) {
	table := ""
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table = line[1:]
		case strings.HasPrefix(line, "-A") || strings.HasPrefix(line, ":"):
			rules = append(rules, firewallRule{tool, table, line})
		}
	}
	return rules
}

// chain returns the name of the line's chain, and whether the line is a rule in that chain.
func (r firewallRule) chain() (name string, isRule bool) {
	words := strings.Fields(r.line)
	if words[0] == "-A" {
		return words[1], true
	}
	return words[0][1:], false
}

// target returns the chain that the rule jumps to, or "".
func (r firewallRule) target() string {
	words := strings.Fields(r.line)
	for _, jump := range []string{"-j", "-g"} {
		if i := slices.Index(words, jump); i >= 0 && i+1 < len(words) {
			return words[i+1]
		}
	}
	return ""
}

// removeRules removes the rules and then the chains. In each table, it removes all of them or none.
func removeRules(rules []firewallRule) error {
	type table struct{ tool, name string }
	var order []table
	script := map[table]string{}
	for _, chains := range []bool{false, true} {
		for _, r := range rules {
			chain, isRule := r.chain()
			if isRule == chains {
				continue
			}
			t := table{r.tool, r.table}
			if script[t] == "" {
				order = append(order, t)
			}
			if isRule {
				script[t] += "-D" + strings.TrimPrefix(r.line, "-A") + "\n"
			} else {
				script[t] += "-X " + chain + "\n"
			}
		}
	}
	var errs []error
	for _, t := range order {
		cmd := exec.Command(programPath(t.tool+"-restore"), "-w", "--noflush")
		cmd.Env = commandEnvironment(nil)
		cmd.Stdin = strings.NewReader("*" + t.name + "\n" + script[t] + "COMMIT\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("remove firewall rules by %s: %w: %s", t.tool, err, strings.TrimSpace(string(out))))
		}
	}
	return errors.Join(errs...)
}

// isLibvirtChain reports whether the chain is one that every libvirtd creates for its first network or network filter,
// and that no libvirtd removes.
func isLibvirtChain(chain string) bool {
	return strings.HasPrefix(chain, "LIBVIRT_") || slices.Contains([]string{"libvirt-in", "libvirt-out", "libvirt-in-post", "libvirt-host-in"}, chain)
}

// Files in slotDir that record the machine's state before its first lab host, for restoreNetworkState.
const (
	forwardingPath = "/proc/sys/net/ipv4/ip_forward"
	wasForwarding  = slotDir + "/was-forwarding"
	hadNoChains    = slotDir + "/had-no-chains"
)

// recordNetworkState records the state that libvirt's networks change permanently: IPv4 forwarding and firewall chains.
func recordNetworkState(log *slog.Logger) error {
	if forwarding, err := os.ReadFile(forwardingPath); err == nil && !fileExists(wasForwarding) {
		if err := os.WriteFile(wasForwarding, forwarding, 0o600); err != nil {
			return err
		}
	}
	for _, r := range readFirewall(log) {
		if chain, _ := r.chain(); isLibvirtChain(chain) {
			return nil
		}
	}
	return os.WriteFile(hadNoChains, nil, 0o600)
}

// restoreNetworkState restores the state that recordNetworkState has recorded. It is called after the last host has ended. If the
// chains contain rules again, the machine's own libvirtd uses them, and chains and forwarding stay.
func restoreNetworkState(log *slog.Logger) error {
	if !fileExists(hadNoChains) {
		return nil
	}
	var libvirts []firewallRule
	for _, r := range readFirewall(log) {
		chain, isRule := r.chain()
		ours := isLibvirtChain(chain)
		if ours && isRule {
			return nil
		}
		if ours || isLibvirtChain(r.target()) {
			libvirts = append(libvirts, r)
		}
	}
	err := removeRules(libvirts)
	if forwarding, rerr := os.ReadFile(wasForwarding); rerr == nil {
		err = errors.Join(err, os.WriteFile(forwardingPath, forwarding, 0o644))
	}
	return err
}
