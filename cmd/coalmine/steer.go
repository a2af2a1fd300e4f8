package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"coalmine/storage"
	"coalmine/workflows/runs"
)

func newRetryCommand(g *global) *cobra.Command {
	var nodes []string
	c := &cobra.Command{
		Use:     "retry [RUN]",
		Short:   "Try the failed nodes of a run again, or just some of them",
		GroupID: groupSteer,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			e := runs.Entry{Kind: runs.RetryEntry}
			for _, text := range nodes {
				key, err := storage.ParseKey(text)
				if err != nil {
					return fmt.Errorf("--node: %w; see the failures in: coalmine status RUN --json", err)
				}
				e.Keys = append(e.Keys, key)
			}
			return g.steer(c.Context(), runArgument(args), e)
		},
	}
	c.Flags().StringArrayVar(&nodes, "node", nil, "key of a failed node (repeatable); all of them if none is given")
	return c
}

func newPriorityCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "priority RUN NUMBER",
		Short:   "Change the priority of a run; the higher goes first",
		GroupID: groupSteer,
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil {
				return fmt.Errorf("priority %q: expected a whole number", args[1])
			}
			return g.steer(c.Context(), args[0], runs.Entry{Kind: runs.Prioritized, Priority: n})
		},
	}
}
