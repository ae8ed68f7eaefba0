package network

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// bandwidthTimeout bounds the probe of the kernel's traffic control. The probe takes milliseconds, longer while the
// kernel loads modules.
const bandwidthTimeout = 5 * time.Second

// bandwidthProbeSteps are the tc commands that libvirt runs for a NIC's <bandwidth>: first those for traffic to the
// device, then those for traffic from the device. module is the kernel module that the command needs. If the step of
// the module named in after has failed, the failure of this step is ignored.
var bandwidthProbeSteps = []struct{ module, after, command string }{
	{"sch_htb", "", "qdisc add dev lo root handle 1: htb default 1"},
	{"sch_htb", "", "class add dev lo parent 1: classid 1:1 htb rate 1000kbps quantum 87"},
	{"sch_sfq", "sch_htb", "qdisc add dev lo parent 1:1 handle 2: sfq perturb 10"},
	{"cls_fw", "sch_htb", "filter add dev lo parent 1:0 protocol all prio 1 handle 1 fw flowid 1"},
	{"sch_ingress", "", "qdisc add dev lo ingress"},
	{"cls_u32", "sch_ingress", "filter add dev lo parent ffff: protocol all prio 1 u32 match u32 0 0 flowid :1"},
	{"act_police", "cls_u32", "filter add dev lo parent ffff: protocol all prio 2 u32 match u32 0 0 police rate 100kbps burst 100kb mtu 64kb drop flowid :1"},
}

// failedStepPattern matches the line that tc prints for each failed command of a batch.
var failedStepPattern = regexp.MustCompile(`(?m)^Command failed -:(\d+)$`)

// MissingBandwidthLimits returns the NIC limits that this host's kernel does not support. The list of loaded modules is
// not sufficient, because the kernel loads these modules on request. So tc runs libvirt's own commands on the loopback
// device of a temporary network namespace. Modules loaded by the probe stay loaded, as after the first guest with a
// limit. If the agent has no permission for the probe, MissingBandwidthLimits reports no gap.
func MissingBandwidthLimits(ctx context.Context, tc func(ctx context.Context, batch string) (output string, err error)) []fleet.VMGap {
	ctx, cancel := context.WithTimeout(ctx, bandwidthTimeout)
	defer cancel()
	var batch strings.Builder
	for _, s := range bandwidthProbeSteps {
		fmt.Fprintln(&batch, s.command)
	}
	output, err := tc(ctx, batch.String())
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fleet.NICLimitGaps("tc is missing. Install iproute2 (Debian, Ubuntu) or iproute-tc (Fedora, Red Hat).")
	case err == nil, ctx.Err() != nil, strings.Contains(output, "Operation not permitted"):
		return nil
	}
	failed := map[string]bool{}
	var missing []string
	for _, found := range failedStepPattern.FindAllStringSubmatch(output, -1) {
		n, err := strconv.Atoi(found[1])
		if err != nil || n < 1 || n > len(bandwidthProbeSteps) {
			continue
		}
		s := bandwidthProbeSteps[n-1]
		if !failed[s.module] && !failed[s.after] {
			missing = append(missing, s.module)
		}
		failed[s.module] = true
	}
	if len(missing) == 0 {
		return nil
	}
	return fleet.NICLimitGaps(fmt.Sprintf(
		"The kernel lacks %s, which libvirt needs to limit a NIC. Install the kernel's extra modules, or another kernel.", strings.Join(missing, ", ")))
}
