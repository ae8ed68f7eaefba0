package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"quantix/internal/config"
	"quantix/internal/control"
	"quantix/internal/fleet"
)

func newHost() *cobra.Command {
	cmd := &cobra.Command{Use: "host", Short: "Join hosts"}
	var again string
	token := &cobra.Command{
		Use: "token", Short: "Make a join token and print the command to paste on the host",
		Long: `Make a token with which one machine can join within 15 minutes, and print the command for that machine. Run it on the
portal's machine, with the portal's settings; elsewhere use the page Hosts, Add host.`,
		Args: cobra.NoArgs,
		RunE: withControl(func(cmd *cobra.Command, _ []string, c *control.Control) error {
			var id fleet.HostID
			if again != "" {
				hosts, err := c.ListHosts(cmd.Context(), fleet.SystemActor, fleet.Query{Filter: "name:" + strconv.Quote(again)})
				if err != nil {
					return err
				}
				if len(hosts.Items) != 1 {
					return fmt.Errorf("there is no host %q", again)
				}
				id = hosts.Items[0].ID
			}
			token, err := c.CreateJoinToken(cmd.Context(), fleet.SystemActor, id)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "On the host, before %s:\n\n  %s\n", token.ExpiresAt.Format("15:04 MST"), token.Command)
			return err
		}),
	}
	config.PortalFlags(token.Flags())
	token.Flags().StringVar(&again, "again", "", "name of an existing host whose agent joins again")
	cmd.AddCommand(token)
	return cmd
}
