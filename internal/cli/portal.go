package cli

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"quantix/internal/config"
)

func newPortal() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "portal",
		Short: "Run the portal",
		Long: `Run the portal: the pages and the API for people, and the endpoint for agents. Without a database URL it runs a private
PostgreSQL in its data directory. The first start creates the user "admin" and prints a one-time password.
The portal uses a renewed TLS certificate within seconds, or at once after SIGHUP.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.LoadPortal(cmd.Flags(), os.Environ(), "")
			if err != nil {
				return err
			}
			log := newLog(cfg.Log, cmd.ErrOrStderr())
			hangups := make(chan os.Signal, 1)
			// Until the settings are loaded, SIGHUP ends the process. From now on it reloads the certificates.
			signal.Notify(hangups, syscall.SIGHUP)
			defer signal.Stop(hangups)
			p, err := startPortal(cmd.Context(), cfg, log, false, hangups)
			if err != nil {
				return err
			}
			log.Info("portal is running", "url", p.URL, "agents", p.AgentURL)
			if p.Password != "" {
				fmt.Fprintf(cmd.OutOrStdout(), "\n  Open %s and sign in as \"admin\" with the one-time password %s\n\n", p.URL, p.Password)
			}
			defer p.Close()
			return p.Wait(cmd.Context())
		},
	}
	config.PortalFlags(cmd.Flags())
	return cmd
}
