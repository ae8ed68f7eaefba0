package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/config"
	"quantix/internal/control"
	"quantix/internal/control/identity"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/pglocal"
)

func newUser() *cobra.Command {
	cmd := &cobra.Command{
		Use: "user", Short: "Manage users on the portal's machine, even if nobody can sign in",
		Long: `Manage users directly in the portal's database. Run the command on the portal's machine, with the portal's settings.`,
	}
	add := &cobra.Command{
		Use: "add NAME", Short: "Add a user and print a one-time password", Args: cobra.ExactArgs(1),
	}
	role := add.Flags().String("role", "", `"admin", "operator", "viewer", or empty: only what projects grant`)
	add.RunE = withControl(func(cmd *cobra.Command, args []string, c *control.Control) error {
		user, password, err := c.CreateUser(cmd.Context(), fleet.SystemActor, identity.UserInput{Name: args[0], Role: fleet.Role(*role)})
		if err != nil {
			return err
		}
		return printPassword(cmd, user.Name, password)
	})
	cmd.AddCommand(add,
		&cobra.Command{Use: "list", Short: "List the users", Args: cobra.NoArgs, RunE: withControl(listUsers)},
		&cobra.Command{Use: "reset-password NAME", Short: "Give a user a new one-time password, end the user's sessions and delete the API tokens", Args: cobra.ExactArgs(1), RunE: withControl(resetPassword)},
	)
	for _, sub := range cmd.Commands() {
		config.PortalFlags(sub.Flags())
	}
	return cmd
}

func listUsers(cmd *cobra.Command, _ []string, c *control.Control) error {
	users, err := query.ReadAllPages(cmd.Context(), fleet.SystemActor, fleet.Query{}, c.ListUsers)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tROLE\tSTATE")
	for _, u := range users {
		state := "active"
		if u.Disabled {
			state = "disabled"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", u.Name, u.Role, state)
	}
	return w.Flush()
}

func resetPassword(cmd *cobra.Command, args []string, c *control.Control) error {
	users, err := query.ReadAllPages(cmd.Context(), fleet.SystemActor, fleet.Query{}, c.ListUsers)
	if err != nil {
		return err
	}
	for _, u := range users {
		if u.Name == args[0] {
			password := auth.NewPassword()
			if err := c.SetPassword(cmd.Context(), fleet.SystemActor, u.ID, password); err != nil {
				return err
			}
			return printPassword(cmd, u.Name, password)
		}
	}
	return fmt.Errorf("there is no user named %q; \"quantix user list\" shows all", args[0])
}

func printPassword(cmd *cobra.Command, name, password string) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "User %s signs in with the one-time password %s\n", name, password)
	return err
}

// withControl runs a command on the configured database, or on the private PostgreSQL. If no portal runs, it starts the
// private PostgreSQL temporarily. If a running portal has published its address for agents, that address overrides the
// agent URL in the settings, but not the flag --agent-url.
func withControl(run func(*cobra.Command, []string, *control.Control) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		cfg, err := config.LoadPortal(cmd.Flags(), os.Environ(), "")
		if err != nil {
			return err
		}
		url, release, err := existingDatabase(cmd.Context(), cfg, newLog(cfg.Log, cmd.ErrOrStderr()))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, release()) }()
		if err := db.Migrate(cmd.Context(), url); err != nil {
			return databaseError(err)
		}
		pool, err := db.Open(cmd.Context(), url, 2)
		if err != nil {
			return databaseError(err)
		}
		defer pool.Close()
		options := control.Options{AgentURL: cfg.AgentURL}
		if !cmd.Flags().Changed("agent-url") {
			published, err := control.New(pool, options).AgentAddress(cmd.Context(), fleet.SystemActor)
			if err != nil {
				return err
			}
			if published != "" {
				options.AgentURL = published
			}
		}
		return run(cmd, args, control.New(pool, options))
	}
}

func existingDatabase(ctx context.Context, cfg config.Portal, log *slog.Logger) (url string, release func() error, err error) {
	if cfg.Database.URL != "" {
		return cfg.Database.URL, func() error { return nil }, nil
	}
	dir := filepath.Join(cfg.DataDir, "postgres")
	if _, err := os.Stat(dir); err != nil {
		return "", nil, fmt.Errorf("%s contains no portal database; give the portal's --data-dir or --database-url, and run as the portal's user", strings.TrimSuffix(dir, "/postgres"))
	}
	server, err := pglocal.StartOrReuse(ctx, pglocal.Options{Dir: dir, Log: log})
	if err != nil {
		return "", nil, err
	}
	return server.URL(), func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return server.Stop(ctx)
	}, nil
}
