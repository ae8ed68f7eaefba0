package agent

import (
	"context"
	"os/exec"
	"time"

	"quantix/internal/fleet"
)

// hostPowerLimit limits the command that reboots the host or powers it off.
const hostPowerLimit = time.Minute

// powerHost checks that the host may be rebooted or powered off. The command runs after the portal has accepted the
// job's end, because nothing can be reported afterwards. An agent that ends in between does not run the command: its
// journal has the job as done.
func powerHost(_ context.Context, a *Agent, j *job) error {
	if a.hostPower == nil {
		return fleet.Errorf(fleet.Conflict, "agent.yaml of this host does not allow it: set hostPower: true.")
	}
	j.afterwards = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(j.ctx), hostPowerLimit)
		defer cancel()
		a.log.Warn("The host goes down: the portal requested it.", "job", j.ID, "kind", j.Kind)
		if err := a.hostPower(ctx, j.Kind); err != nil {
			a.log.Error("The command that takes the host down failed.", "job", j.ID, "kind", j.Kind, "error", err)
		}
	}
	return nil
}

// systemctlVerbs are the arguments of systemctl by kind of job.
var systemctlVerbs = map[fleet.JobKind]string{fleet.HostReboot: "reboot", fleet.HostShutdown: "poweroff"}

// Systemctl reboots this machine, or powers it off, by systemctl. It is the HostPower of an agent whose agent.yaml
// allows it.
func Systemctl(ctx context.Context, kind fleet.JobKind) error {
	return exec.CommandContext(ctx, "systemctl", systemctlVerbs[kind]).Run() //nolint:gosec // constant arguments
}
