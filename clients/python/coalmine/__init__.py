"""Lets Coalmine ask models that are not its own, one module for each contract.

coalmine.score    scores texts: docs/contracts/score.md
coalmine.harness  the same for any model that lm-evaluation-harness has an adapter of
coalmine.pytorch  the same for a causal language model in PyTorch
coalmine.train    trains whole models: docs/contracts/train.md
coalmine.client   trains single users' models: docs/contracts/client.md
coalmine.torchclient  the same for a module in PyTorch
coalmine.flower   the same for a NumPyClient of Flower
coalmine.tensors  safetensors files
"""
