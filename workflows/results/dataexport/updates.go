package dataexport

import (
	"context"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
	"coalmine/tasks/devices"
	"coalmine/tasks/updates"
)

func (c *Cell) eachDevice(ctx context.Context, row func(Device) error) error {
	t := c.task(tasks.Input{Name: devicesInput, Key: c.Cell.Devices.Key})
	list, err := devices.Read(ctx, t, devicesInput)
	if err != nil {
		return err
	}
	population, err := datasets.OpenPopulation(ctx, c.populationTask(), populationInput, shardsInput)
	if err != nil {
		return err
	}
	if population.Users() != len(list) {
		return fmt.Errorf("the population has %d users, the list of devices %d: %w", population.Users(), len(list), storage.ErrCorrupt)
	}
	for number, d := range list {
		first, end := population.UserRecords(number)
		if err := row(Device{int64(number), int64(d.User), d.Shadow, string(d.Set), int64(end - first)}); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cell) eachUpdate(ctx context.Context, row func(Update) error) error {
	for _, gathered := range c.Cell.Recorded {
		t := c.task(tasks.Input{Name: recordedInput, Key: gathered})
		if err := eachGathered(ctx, t, row); err != nil {
			return err
		}
	}
	return nil
}

// eachGathered goes through the updates of one gather node.
func eachGathered(ctx context.Context, t *tasks.Task, row func(Update) error) error {
	layout, err := updates.ReadLayout(ctx, t, recordedInput)
	if err != nil {
		return err
	}
	shards, err := updates.Refs(ctx, t, []string{recordedInput})
	if err != nil {
		return err
	}
	for _, shard := range shards {
		err := shard.Each(ctx, t, func(u updates.Update) error { return eachLayer(u, layout.Layers, row) })
		if err != nil {
			return err
		}
	}
	return nil
}

// eachLayer cuts an update into its layers.
func eachLayer(u updates.Update, layers []updates.Layer, row func(Update) error) error {
	at := 0
	for _, layer := range layers {
		values := u.Values[at : at+layer.Values]
		if err := row(Update{int64(u.Round), int64(u.Device), layer.Name, values}); err != nil {
			return fmt.Errorf("round %d, device %d, layer %s: %w", u.Round, u.Device, layer.Name, err)
		}
		at += layer.Values
	}
	return nil
}
