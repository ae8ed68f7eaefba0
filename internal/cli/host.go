package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"quantix/internal/config"
	"quantix/internal/control"
	"quantix/internal/fleet"
)

func newHost() *cobra.Command {
	cmd := &cobra.Command{Use: "host", Short: "Join hosts"}
	token := &cobra.Command{
		Use: "token", Short: "Make a join token and print the command to paste on the host",
		Long: `Make a token with which one machine can join within 15 minutes, and print the command for that machine. Run it on the
portal's machine, with the portal's settings; elsewhere use the page Hosts, Add host.`,
		Args: cobra.NoArgs,
		RunE: withControl(func(cmd *cobra.Command, _ []string, c *control.Control) error {
			token, err := c.CreateJoinToken(cmd.Context(), fleet.SystemActor)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "On the new host, before %s:\n\n  %s\n", token.ExpiresAt.Format("15:04 MST"), token.Command)
			return err
		}),
	}
	config.PortalFlags(token.Flags())
	cmd.AddCommand(token)
	return cmd
}
