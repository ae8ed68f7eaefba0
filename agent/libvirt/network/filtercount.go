package network

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/internal/secgroup"
)

const (
	countTimeout    = 2 * time.Second
	countMaxAge     = 5 * time.Second
	maxListingBytes = 64 << 20 // bytes of one program's output
)

// FilterCounts implements hypervisor.Telemetry. libvirt implements filters with iptables, ip6tables and ebtables.
// libvirt's chains contain the name of the NIC's host device, and the rule comments contain Quantix's rule IDs. The
// agent lists the rules only if at least one NIC has a filter.
func (fs *Filters) FilterCounts(ctx context.Context) ([]hypervisor.NICPacketCounts, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("count packets: %w", err)
	}
	s := fs.counts.Read(ctx, countMaxAge, countTimeout, fs.readPacketCounts)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("count packets: %w", ctx.Err())
	case s.Running > 0:
		return nil, fmt.Errorf("count packets: listing the filter rules takes longer than %s", countTimeout)
	case s.Err != nil:
		return nil, fmt.Errorf("count packets: %w", s.Err)
	}
	return s.Value, nil
}

func (fs *Filters) readPacketCounts() ([]hypervisor.NICPacketCounts, error) {
	c, err := fs.daemon.Dial(fs.daemon.RunContext)
	if err != nil {
		return nil, err
	}
	defer c.Disconnect()
	bound, err := conn.Call(fs.daemon.RunContext, c, func(l *golibvirt.Libvirt) ([]golibvirt.NwfilterBinding, error) {
		all, _, err := l.ConnectListAllNwfilterBindings(1, 0)
		return all, err
	})
	if conn.IsLibvirtError(err) {
		return nil, nil // a libvirt without network filters
	}
	if err != nil {
		return nil, err
	}
	var out []hypervisor.NICPacketCounts
	at := map[string]int{} // index in out, by the NIC's host device
	for _, x := range bound {
		if vm, mac, ours := hypervisor.ParseFilterName(x.Filtername); ours {
			at[x.Portdev] = len(out)
			out = append(out, hypervisor.NICPacketCounts{VM: vm, MAC: mac, Chains: map[string]map[string]secgroup.PassCount{}})
		}
	}
	if len(out) == 0 {
		return out, nil
	}
	for _, p := range filterListCommands {
		listed, err := listRules(fs.daemon.RunContext, p.program, p.args...)
		if err != nil {
			return nil, err
		}
		p.read(listed, func(device, chain, rule string, n secgroup.PassCount) {
			i, known := at[device]
			if !known {
				return
			}
			key := p.program + " " + device + " " + chain
			if out[i].Chains[key] == nil {
				out[i].Chains[key] = map[string]secgroup.PassCount{}
			}
			out[i].Chains[key][rule] = out[i].Chains[key][rule].Plus(n)
		})
	}
	return out, nil
}

// filterListCommands are the programs that list rules with their counters.
var filterListCommands = []filterListCommand{
	{"iptables-save", []string{"-c", "-t", "filter"}, parseIPTables},
	{"ip6tables-save", []string{"-c", "-t", "filter"}, parseIPTables},
	{"ebtables-save", []string{"-c"}, parseEbtables},
}

type filterListCommand struct {
	program string
	args    []string
	read    func([]byte, ruleCountFunc)
}

// ruleCountFunc receives the count of one rule in a chain of a NIC's host device.
type ruleCountFunc func(device, chain, rule string, n secgroup.PassCount)

var (
	countedRulePattern = regexp.MustCompile(`^\[(\d+):(\d+)\] -A (\S+) (.*)$`)
	// The pattern does not match FJ, FP and HJ: libvirt builds a changed filter with these temporary chains.
	iptablesChainPattern = regexp.MustCompile(`^(F[IO]|HI)-(\S+)$`)
	ebtablesChainPattern = regexp.MustCompile(`^(?:libvirt-)?(I)-([^-\s]+)`) // traffic from the guest
	ruleCommentPattern   = regexp.MustCompile(`--comment "?([^\s"]+)"?`)
)

// parseIPTables reads IP rules. A rule has its ID in the comment; the NIC's final drop rule has no comment.
func parseIPTables(listed []byte, each ruleCountFunc) {
	eachCountedRule(listed, func(n secgroup.PassCount, chain, rest string) {
		at := iptablesChainPattern.FindStringSubmatch(chain)
		if at == nil {
			return
		}
		if match := ruleCommentPattern.FindStringSubmatch(rest); match != nil {
			if id := hypervisor.RuleIDOfComment(match[1]); id != "" {
				each(at[2], at[1], id, n)
			}
			return
		}
		if strings.HasSuffix(rest, "-j DROP") {
			each(at[2], at[1], hypervisor.DroppedKey, n)
		}
	})
}

// parseEbtables reads the packets of guests that anti-spoofing dropped.
func parseEbtables(listed []byte, each ruleCountFunc) {
	eachCountedRule(listed, func(n secgroup.PassCount, chain, rest string) {
		if at := ebtablesChainPattern.FindStringSubmatch(chain); at != nil && strings.HasSuffix(rest, "-j DROP") {
			each(at[2], chain, hypervisor.SpoofedKey, n)
		}
	})
}

// eachCountedRule calls each for every rule with counters in a program's output.
func eachCountedRule(listed []byte, each func(n secgroup.PassCount, chain, rest string)) {
	scan := bufio.NewScanner(bytes.NewReader(listed))
	for scan.Scan() {
		m := countedRulePattern.FindStringSubmatch(scan.Text())
		if m == nil {
			continue
		}
		packets, bad := strconv.ParseInt(m[1], 10, 64)
		octets, worse := strconv.ParseInt(m[2], 10, 64)
		if bad == nil && worse == nil {
			each(secgroup.PassCount{Packets: packets, Bytes: octets}, m[3], " "+m[4])
		}
	}
}

// listRules runs the program and returns its output, at most maxListingBytes bytes.
func listRules(ctx context.Context, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, conn.CallTimeout)
	defer cancel()
	path, err := exec.LookPath(program)
	if err != nil {
		path = "/usr/sbin/" + program // /usr/sbin is often not in PATH
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("the program %s is not installed on this host", program)
		}
	}
	cmd := exec.CommandContext(ctx, path, args...)
	out, stderr := &limitedBuffer{left: maxListingBytes}, &limitedBuffer{left: 1 << 10}
	cmd.Stdout, cmd.Stderr = out, stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(stderr.String()))
	}
	return out.Bytes(), nil
}

// limitedBuffer is a buffer that fails when more than left bytes are written.
type limitedBuffer struct {
	bytes.Buffer
	left int
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, errors.New("the output is too large")
	}
	return l.Buffer.Write(p)
}
