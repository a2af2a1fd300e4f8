"""Trains Model on one user's texts at a time: the contract client. self.config is training.job of the experiment file."""
from coalmine.torchclient import ModuleClient, serve
from model import Model


class Client(ModuleClient):
    name = "model.py 1"
    def module(self):
        return Model(self.vocabulary.size, self.config)


serve(Client)
