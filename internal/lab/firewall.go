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

// rule is one line of iptables-save: a rule ("-A CHAIN …") or a chain (":CHAIN …").
type rule struct {
	tool  string // iptables, ip6tables or ebtables
	table string
	line  string
}

// firewall lists the machine's rules and chains. A machine whose firewall cannot be read has none that libvirt made.
func firewall(log *slog.Logger) (rules []rule) {
	for _, tool := range []string{"iptables", "ip6tables"} {
		cmd := exec.Command(program(tool + "-save"))
		cmd.Env = environment(nil)
		out, err := cmd.Output()
		if err != nil {
			log.Debug("The machine's firewall cannot be read.", "tool", tool, "error", err)
			continue
		}
		rules = append(rules, linesOf(tool, string(out))...)
	}
	return rules
}

// linesOf are the rules and chains of what a tool saves.
func linesOf(tool, saved string) (rules []rule) {
	table := ""
	for line := range strings.Lines(saved) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table = line[1:]
		case strings.HasPrefix(line, "-A") || strings.HasPrefix(line, ":"):
			rules = append(rules, rule{tool, table, line})
		}
	}
	return rules
}

// chain is the chain that the line is of, and whether the line is a rule in it.
func (r rule) chain() (name string, isRule bool) {
	words := strings.Fields(r.line)
	if words[0] == "-A" {
		return words[1], true
	}
	return words[0][1:], false
}

// target is the chain that the rule jumps or goes to, "" for none.
func (r rule) target() string {
	words := strings.Fields(r.line)
	for _, jump := range []string{"-j", "-g"} {
		if i := slices.Index(words, jump); i >= 0 && i+1 < len(words) {
			return words[i+1]
		}
	}
	return ""
}

// remove removes rules and then chains, all of one table or none.
func remove(rules []rule) error {
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
		cmd := exec.Command(program(t.tool+"-restore"), "-w", "--noflush")
		cmd.Env = environment(nil)
		cmd.Stdin = strings.NewReader("*" + t.name + "\n" + script[t] + "COMMIT\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("remove firewall rules by %s: %w: %s", t.tool, err, strings.TrimSpace(string(out))))
		}
	}
	return errors.Join(errs...)
}

// isLibvirts reports whether a chain is one of those that each libvirtd makes with its first network, or its first network filter, and none removes.
func isLibvirts(chain string) bool {
	return strings.HasPrefix(chain, "LIBVIRT_") || slices.Contains([]string{"libvirt-in", "libvirt-out", "libvirt-in-post", "libvirt-host-in"}, chain)
}

// What the machine was like before its first lab host, kept for restoreMachine in files of slotDir.
const (
	forwardingPath = "/proc/sys/net/ipv4/ip_forward"
	wasForwarding  = slotDir + "/was-forwarding"
	hadNoChains    = slotDir + "/had-no-chains"
)

// rememberMachine records what libvirt's networks change for good: IPv4 forwarding and chains.
func rememberMachine(log *slog.Logger) error {
	if forwarding, err := os.ReadFile(forwardingPath); err == nil && !exists(wasForwarding) {
		if err := os.WriteFile(wasForwarding, forwarding, 0o600); err != nil {
			return err
		}
	}
	for _, r := range firewall(log) {
		if chain, _ := r.chain(); isLibvirts(chain) {
			return nil
		}
	}
	return os.WriteFile(hadNoChains, nil, 0o600)
}

// restoreMachine undoes, after the last host, what rememberMachine has recorded. Chains that hold rules again belong to
// a libvirtd of the machine's own, and stay, as does the forwarding that it needs.
func restoreMachine(log *slog.Logger) error {
	if !exists(hadNoChains) {
		return nil
	}
	var libvirts []rule
	for _, r := range firewall(log) {
		chain, isRule := r.chain()
		ours := isLibvirts(chain)
		if ours && isRule {
			return nil
		}
		if ours || isLibvirts(r.target()) {
			libvirts = append(libvirts, r)
		}
	}
	err := remove(libvirts)
	if forwarding, rerr := os.ReadFile(wasForwarding); rerr == nil {
		err = errors.Join(err, os.WriteFile(forwardingPath, forwarding, 0o644))
	}
	return err
}
