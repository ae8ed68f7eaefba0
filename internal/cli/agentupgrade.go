package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"quantix/agent"
	"quantix/agent/upgrade"
	"quantix/internal/config"
	"quantix/internal/release"
)

// newInstaller returns the installer of releases for an agent that runs as "quantix agent"; nil for another process.
func newInstaller(cfg config.Agent) (*upgrade.Installer, error) {
	if len(os.Args) < 2 || os.Args[1] != "agent" {
		return nil, nil //nolint:nilnil // the portal cannot replace the process
	}
	var keys []release.PublicKey
	for _, text := range cfg.UpgradeKeys {
		key, err := release.ParsePublicKey(text)
		if err != nil {
			return nil, fmt.Errorf("upgradeKeys: %w", err)
		}
		keys = append(keys, key)
	}
	return upgrade.NewInstaller(keys, cfg.DataDir, os.Args[1:], versionText())
}

// newAgentTrial returns the hidden command that runs a new agent until the portal has accepted one report of it.
func newAgentTrial() *cobra.Command {
	cmd := &cobra.Command{
		Use:    upgrade.TrialCommand,
		Short:  "Send one report to the portal, as a test of a new version",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.LoadAgent(cmd.Flags(), os.Environ(), "")
			if err != nil {
				return err
			}
			log := newLog(cfg.Log, cmd.ErrOrStderr())
			return withAgent(cmd.Context(), cfg, log, nil, commandParts{}, func(a *agent.Agent, _ agentParts) error {
				connected, hypervisorError, err := a.RunTrial(cmd.Context())
				if err != nil {
					return err
				}
				return upgrade.ReportTrial(connected, hypervisorError)
			})
		},
	}
	config.AgentFlags(cmd.Flags())
	return cmd
}

// newAgentSupervisor returns the hidden command that an agent becomes while a new version is tried.
func newAgentSupervisor() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:    upgrade.SuperviseCommand + " --data-dir DIR",
		Short:  "Try a new version of the agent, and return to the old one if it does not report",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return errors.New("give --data-dir, the agent's data directory")
			}
			return upgrade.Supervise(cmd.Context(), dir, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "the agent's data directory")
	return cmd
}
