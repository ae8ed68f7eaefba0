package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"quantix/agent"
	"quantix/agent/hardware"
	"quantix/agent/link"
	"quantix/internal/config"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// newAgentRollback returns the hidden command that reverts a change of the host's network unless the agent confirms the
// change in time. The agent starts this command.
func newAgentRollback() *cobra.Command {
	var dir string
	var after time.Duration
	cmd := &cobra.Command{
		Use:    "rollback --data-dir DIR",
		Short:  "Undo a change of the host's network unless the agent confirms it in time",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return errors.New("give --data-dir, the agent's data directory")
			}
			return link.RollBackUnlessConfirmed(context.WithoutCancel(cmd.Context()), dir, after)
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "the agent's data directory")
	cmd.Flags().DurationVar(&after, "after", 0, "time limit of the confirmation; 0: undo the change now")
	return cmd
}

// hardwareReaders holds functions that read the host's hardware, including the network features of its kernel.
type hardwareReaders struct {
	inventory func(context.Context) (fleet.Inventory, error)
	nics      func() []fleet.HostNIC
}

// openNetworkDevices opens the manager of the host's network devices. It also returns functions that read the host's hardware. A
// mock host has no device manager.
func openNetworkDevices(cfg config.Agent, client *wire.Client, log *slog.Logger) (agent.Links, hardwareReaders, error) {
	if cfg.Hypervisor == "mock" {
		return nil, hardwareReaders{hardware.Read, hardware.NICs}, nil
	}
	devices, err := openLinkDevices(cfg, client, log)
	if err != nil {
		return nil, hardwareReaders{}, err
	}
	return devices, hardwareReaders{func(ctx context.Context) (fleet.Inventory, error) {
		v, err := hardware.Read(ctx)
		if err == nil {
			v.NetworkGaps = link.NetworkGaps(ctx)
			devices.MarkPortalNICs(v.NICs)
		}
		return v, err
	}, func() []fleet.HostNIC {
		nics := hardware.NICs()
		devices.MarkPortalNICs(nics)
		return nics
	}}, nil
}

func openLinkDevices(cfg config.Agent, client *wire.Client, log *slog.Logger) (*link.Devices, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	inventory, err := hardware.Read(context.Background())
	if err != nil {
		return nil, err
	}
	return link.Open(link.Options{
		Dir: dir, BootID: inventory.BootID, PortalTimeout: time.Duration(cfg.NetworkConfirm) * time.Second, Portal: client.PortalHostname(), Log: log,
		ReachPortal: func(ctx context.Context, device string) error {
			return client.CheckReachable(ctx, link.NewDialFunc(device))
		},
		RollbackCommand: func(after time.Duration) (*exec.Cmd, error) { return link.RollbackCommand(self, dir, after), nil },
	})
}
